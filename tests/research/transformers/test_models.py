"""Models of mixling as models of transformers: loaded by the Auto classes, trained by Trainer, made of run folders."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from mixling import ConfigError, ModelConfig, Predictor, TextConfig, build_model
from mixling.answers import LabelSet
from mixling.artifacts import write_model
from mixling.models import tensors_of, weights_of
from mixling.networks import BlockConfig, FeedForwardConfig
from mixling.tasks import task_type
from mixling.text import MinHash, SimHash, train_vocabulary

transformers = pytest.importorskip("transformers", reason="needs transformers: pip install 'mixling[hf]'")

import mixling.research.transformers as mt  # noqa: E402

TEXTS = ["play some jazz", "book a table for two in oslo", "play"]
WORDS = ["[PAD]", "[UNK]", "play", "some", "jazz", "book", "a", "table", "for", "two", "in", "oslo"]
LABELS = {
    "classification": LabelSet(("music", "weather", "table"), "single"),
    "multi_label": LabelSet(("a", "b", "c"), "multi"),
    "regression": LabelSet(("value",), "number", {"mean": 2.0, "deviation": 1.5}),
    "tagging": LabelSet(("O", "B-x", "I-x"), "iob"),
}


@pytest.fixture(autouse=True)
def quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    """No bars of progress, and no network."""
    transformers.utils.logging.disable_progress_bar()
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    from tokenizers import Tokenizer, models, pre_tokenizers

    words = Tokenizer(models.WordLevel({word: number for number, word in enumerate(WORDS)}, unk_token="[UNK]"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    return transformers.PreTrainedTokenizerFast(tokenizer_object=words, pad_token="[PAD]", unk_token="[UNK]")


def on_ids(preset: str, tokenizer: Any, **kwargs: Any) -> mt.MixlingConfig:
    """Return a small model of token ids."""
    changes = {"dim": 16, "num_layers": 1, "text": {"max_len": 12}}
    return mt.MixlingConfig.from_preset(preset, tokenizer=tokenizer, changes=changes, **kwargs)


def seeded(make: Any, seed: int = 0) -> Any:
    torch.manual_seed(seed)
    return make().eval()


@torch.inference_mode()
def outputs(model: Any, batch: Any) -> torch.Tensor:
    found = model(**batch)
    return found.last_hidden_state if "last_hidden_state" in found else found.logits


@pytest.fixture
def run_folder(tmp_path: Path) -> Any:
    """Write the folder of a run with random weights, without an n-gram branch; return it."""

    def write(task: str, projection: Any = MinHash(num_features=64, num_hashes=8)) -> Path:
        layer = BlockConfig(feed_forward=FeedForwardConfig(ffn_dim=20))
        text, labels = TextConfig(projection=projection, max_len=8), LABELS[task]
        config = ModelConfig(text=text, dim=16, layers=(layer,))
        model = build_model(config, num_outputs=len(labels), output=task_type(task)(labels).output, seed=1)
        vocabulary = train_vocabulary(TEXTS, text)
        name, content = vocabulary.serialize()
        (tmp_path / name).write_text(content, "utf-8")
        saved = {"task": task, "model": config.to_dict(), "labels": labels.to_dict(), "vocabulary": name}
        write_model(tmp_path, weights_of(model), {"kind": "training", "format_version": 1, "parameters": 1, **saved})
        return tmp_path

    return write


# With computed tables, which checkpoints do not have, and without; post-norm with segments.
@pytest.mark.parametrize("preset", ["hypermixer", "transformer", "gmlp", "bert-tiny"])
@pytest.mark.parametrize("kind", ["", "ForSequenceClassification", "ForTokenClassification"])
def test_auto_classes_load_what_was_saved(preset: str, kind: str, tokenizer: Any, tmp_path: Path) -> None:
    auto = getattr(transformers, f"AutoModel{kind}")
    config = on_ids(preset, tokenizer, num_labels=3) if preset != "bert-tiny" else None
    if config is None:
        changes = {"dim": 16, "num_layers": 1, "layers": {"0": {"mixers": {"0": {"num_heads": 2}}}}}
        config = mt.MixlingConfig.from_preset(preset, tokenizer=tokenizer, changes=changes, num_labels=3)
    model = seeded(lambda: auto.from_config(config))
    assert type(model) is getattr(mt, f"Mixling{kind or 'Model'}")
    model.save_pretrained(tmp_path)
    again = auto.from_pretrained(tmp_path, trust_remote_code=False).eval()
    batch = tokenizer(TEXTS, padding=True, return_tensors="pt")
    assert torch.equal(outputs(model, batch), outputs(again, batch))


def test_padding_changes_nothing_and_is_found_without_a_mask(tokenizer: Any) -> None:
    model = seeded(lambda: mt.MixlingForSequenceClassification(on_ids("hypermixer", tokenizer, num_labels=3)))
    batch = tokenizer(TEXTS, padding=True, return_tensors="pt")
    together = outputs(model, batch)
    alone = torch.cat([outputs(model, tokenizer(text, return_tensors="pt")) for text in TEXTS])
    torch.testing.assert_close(together, alone)
    assert torch.equal(together, outputs(model, {"input_ids": batch["input_ids"]}))


def test_the_logits_are_those_of_the_model_of_mixling(tokenizer: Any) -> None:
    """With segments, whose rows are the last of the table."""
    changes = {"dim": 16, "num_layers": 1, "layers": {"0": {"mixers": {"0": {"num_heads": 2}}}}}
    config = mt.MixlingConfig.from_preset("bert-tiny", tokenizer=tokenizer, changes=changes, num_labels=3)
    model = seeded(lambda: mt.MixlingForSequenceClassification(config))
    own = build_model(config.mixling, num_outputs=3).eval()
    own.load_state_dict({key.removeprefix("mixling."): value for key, value in model.state_dict().items()})
    ids, segments = torch.tensor([[2, 3, 4], [5, 6, 0]]), torch.tensor([[0, 0, 1], [0, 1, 0]])
    index = torch.tensor([[1, 2, 3], [4, 5, 0]])
    positions = torch.tensor([[2, 12], [3, 12], [4, 13], [5, 12], [6, 13]])
    with torch.inference_mode():
        expected = own(positions, None, index)
        found = model(ids, token_type_ids=segments).logits
        assert not torch.allclose(model(ids).logits, expected)
    torch.testing.assert_close(found, expected)


def test_no_texts_are_an_empty_batch() -> None:
    for projection in (MinHash(num_features=64, num_hashes=8), SimHash(num_features=64)):
        config = mt.MixlingConfig(model=ModelConfig(text=TextConfig(projection=projection)).to_dict())
        extract = mt.MixlingFeatureExtractor.train(TEXTS, config)
        one, none = extract(TEXTS[:1]), extract([])
        assert none.keys() == one.keys()
        for name, values in none.items():
            assert (len(values), values.shape[2:], values.dtype) == (0, one[name].shape[2:], one[name].dtype)


def test_what_a_checkpoint_does_not_have_is_initialized(tokenizer: Any, tmp_path: Path) -> None:
    config = on_ids("transformer", tokenizer, num_labels=5)
    base = seeded(lambda: mt.MixlingModel(config))
    base.save_pretrained(tmp_path)
    model = seeded(lambda: transformers.AutoModelForTokenClassification.from_pretrained(tmp_path, num_labels=5))
    assert torch.equal(model.mixling.embedding.weight, base.embedding.weight)
    assert torch.equal(model.mixling.embedding.positions.table, base.embedding.positions.table)
    bound = config.mixling.dim**-0.5  # of nn.Linear
    weight = model.head.output.weight
    assert weight.shape == (5, 16)
    assert 0.5 * bound < weight.abs().max() <= bound


@pytest.mark.parametrize("task", LABELS)
@pytest.mark.parametrize("projection", [MinHash(num_features=64, num_hashes=8), SimHash(num_features=64)])
def test_a_run_becomes_a_model_and_a_model_file(task: str, projection: Any, run_folder: Any, tmp_path: Path) -> None:
    model, features = mt.from_run(run_folder(task, projection))
    labels = LABELS[task]
    assert [model.config.id2label[number] for number in range(len(labels))] == list(labels.names)
    model.save_pretrained(tmp_path / "hf")
    features.save_pretrained(tmp_path / "hf")
    again = type(model).from_pretrained(tmp_path / "hf").eval()
    batch = transformers.AutoFeatureExtractor.from_pretrained(tmp_path / "hf")(TEXTS)
    assert ("feature_weights" in batch) == projection.weighted
    logits = outputs(again, batch)
    assert torch.equal(logits, outputs(model, features(TEXTS)))
    mt.save_onnx(again, features, tmp_path / "model.onnx")
    found = [prediction.to_dict() for prediction in Predictor(tmp_path / "model.onnx").predict(TEXTS)]
    if task == "regression":
        np.testing.assert_allclose([item["value"] for item in found], logits[:, 0], rtol=1e-4)
    elif task == "tagging":
        task_labels = task_type(task)(labels)
        encoded = features.encoder.encode(TEXTS, offsets=True)
        for item, row, code, text in zip(found, logits.numpy(), encoded, TEXTS, strict=True):
            assert item["tags"] == task_labels.decode(row[: len(code.words)], code, text).to_dict()["tags"]
    else:
        wanted = logits.softmax(1) if task == "classification" else logits.sigmoid()
        values = [[item["probabilities"][name] for name in labels.names] for item in found]
        np.testing.assert_allclose(values, wanted, rtol=1e-4)


def test_a_run_gives_the_numbers_of_its_own_network(run_folder: Any) -> None:
    """A regression's network predicts standardized numbers."""
    from mixling.research import load_model

    folder = run_folder("regression")
    model, features = mt.from_run(folder)
    network, encoder, _, _ = load_model(folder)
    from mixling.data import collate

    batch = collate([item.words for item in encoder.encode(TEXTS)], encoder)
    with torch.inference_mode():
        expected = 2.0 + 1.5 * network(*tensors_of(batch.arguments))
    torch.testing.assert_close(outputs(model, features(TEXTS)), expected)


@pytest.mark.parametrize("task", ["classification", "multi_label", "regression"])
def test_losses_are_the_ones_of_the_problem(task: str, run_folder: Any) -> None:
    model, features = mt.from_run(run_folder(task))
    labels = {
        "classification": [2, 0, 1],
        "multi_label": [[1.0, 0, 1], [0, 0, 0], [1, 1, 1]],
        "regression": [1.0, 2, 3],
    }
    batch = features.collate([{"text": t, "label": label} for t, label in zip(TEXTS, labels[task], strict=True)])
    found = model(**batch)
    target = torch.tensor(labels[task])
    expected = {
        "classification": lambda: F.cross_entropy(found.logits, target),
        "multi_label": lambda: F.binary_cross_entropy_with_logits(found.logits, target),
        "regression": lambda: (found.logits[:, 0] - target).square().mean(),
    }[task]()
    torch.testing.assert_close(found.loss, expected)


def test_words_without_a_label_are_ignored(run_folder: Any) -> None:
    model, features = mt.from_run(run_folder("tagging"))
    examples = [{"tokens": ["play", "jazz"], "labels": [0, 2]}, {"tokens": ["a"] * 20, "labels": [1] * 20}]
    batch = features.collate(examples)  # the second is cut at the model's 8 words
    assert batch["labels"].tolist() == [[0, 2, *[-100] * 6], [1] * 8]
    found = model(**batch)
    losses = -found.logits.log_softmax(2)
    expected = torch.cat([losses[0, [0, 1], [0, 2]], losses[1, :, 1]]).mean()
    torch.testing.assert_close(found.loss, expected)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of other libraries, in the loop of Trainer
@pytest.mark.parametrize("hashed", [True, False], ids=["features", "token ids"])
def test_trainer_trains_saves_and_evaluates(hashed: bool, tokenizer: Any, tmp_path: Path) -> None:
    texts = ["play some jazz", "book a table", "some jazz for two", "a table in oslo"] * 8
    rows = [{"text": text, "label": int("table" in text)} for text in texts]
    if hashed:
        config = mt.MixlingConfig.from_preset("mixling-tiny", changes={"dim": 16}, num_labels=2)
        processor: Any = mt.MixlingFeatureExtractor.train(texts, config)
        collate: Any = processor.collate
    else:
        config, processor = on_ids("hypermixer", tokenizer, num_labels=2), tokenizer
        rows = [{**tokenizer(row["text"]), "labels": row["label"]} for row in rows]
        collate = transformers.DataCollatorWithPadding(tokenizer)
    options = transformers.TrainingArguments(
        str(tmp_path), max_steps=20, per_device_train_batch_size=8, learning_rate=0.01, seed=1, use_cpu=True,
        report_to=[], disable_tqdm=True, save_strategy="no", remove_unused_columns=False,
    )  # fmt: skip
    trainer = transformers.Trainer(
        seeded(lambda: mt.MixlingForSequenceClassification(config)), options, data_collator=collate,
        train_dataset=rows, eval_dataset=rows[:4], processing_class=processor,
    )  # fmt: skip
    before = trainer.evaluate()["eval_loss"]
    trainer.train()
    found = trainer.predict(rows[:4])
    assert found.predictions.argmax(1).tolist() == [0, 1, 0, 1]
    assert found.metrics["test_loss"] < 0.5 * before
    trainer.save_model(str(tmp_path / "saved"))
    again = transformers.AutoModelForSequenceClassification.from_pretrained(tmp_path / "saved")
    np.testing.assert_allclose(outputs(again.eval(), collate(rows[:4])), found.predictions, rtol=1e-5, atol=1e-6)
    kind = transformers.AutoFeatureExtractor if hashed else transformers.AutoTokenizer
    assert type(kind.from_pretrained(tmp_path / "saved")) is type(processor)


def test_mistakes_are_named(tokenizer: Any, run_folder: Any, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="'minhash' hashes words"):
        mt.MixlingConfig.from_preset("mixling-small", tokenizer=tokenizer)
    with pytest.raises(ConfigError, match="model is missing"):
        mt.MixlingModel(mt.MixlingConfig())
    model, features = mt.from_run(run_folder("classification"))
    with pytest.raises(ConfigError, match=r"input_ids: got the shape \(1, 3\); this model hashes words"):
        model(torch.tensor([[1, 2, 3]]))
    with pytest.raises(ConfigError, match="the columns review, label; needed: 'text'"):
        features.collate([{"review": "good", "label": 1}])
    other = mt.MixlingForSequenceClassification(on_ids("hypermixer", tokenizer))
    with pytest.raises(ConfigError, match="rows of features"):
        mt.save_onnx(other, features, tmp_path / "model.onnx")
