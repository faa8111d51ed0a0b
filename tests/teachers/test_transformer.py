"""Answers of the transformers library's models, against the library called by hand for one text at a time."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from mixling import DataError, Dataset, Example, ModelFileError
from mixling.answers import LabelSet
from mixling.data import ColumnsConfig
from mixling.runs.distillation import DistillConfig, open_teacher
from mixling.tasks import Classification, MultiLabel, Tagging
from mixling.teachers import FineTuneConfig, Teacher, TransformerTeacher, fine_tune
from mixling.teachers.base import is_transformer
from mixling.text import Text

transformers = pytest.importorskip("transformers")
MakeModel = Callable[..., Path]
TEXTS: list[Text] = ["the film is good", "bad", "not very good is the film is the film", ["play", "bad"]]


def by_hand(folder: Path, *texts: object) -> np.ndarray:
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModelForSequenceClassification.from_pretrained(folder).eval()
    with torch.no_grad():
        return model(**tokenizer(*texts, return_tensors="pt")).logits[0].softmax(0).numpy()


def test_texts_in_any_order_of_labels(make_model: MakeModel) -> None:
    folder = make_model("BertForSequenceClassification", ("pos", "neg", "neutral"))
    teacher = TransformerTeacher(str(folder), task=Classification, exact=True)
    found = teacher.predict(TEXTS, Classification(LabelSet(("neg", "neutral", "pos"), "single")))
    for text, answer in zip(TEXTS, found, strict=True):
        wanted = by_hand(folder, text if isinstance(text, str) else " ".join(text))
        np.testing.assert_allclose(answer, wanted[[1, 2, 0]], atol=1e-5)


def test_bfloat16_changes_little(make_model: MakeModel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mixling.teachers.transformer.has_bfloat16", lambda device: True)
    folder = str(make_model("BertForSequenceClassification", ("neg", "pos")))
    task = Classification(LabelSet(("neg", "pos"), "single"))
    exact, fast = (TransformerTeacher(folder, task=Classification, exact=exact) for exact in (True, False))
    answers = np.stack(exact.predict(TEXTS, task)), np.stack(fast.predict(TEXTS, task))  # type: ignore[arg-type]
    assert 0 < np.abs(answers[0] - answers[1]).max() < 0.01
    assert exact.key != fast.key


@pytest.mark.parametrize("saved", [torch.float16, torch.bfloat16])
def test_weights_that_are_saved_in_16_bits_are_computed_with_in_32(
    make_model: MakeModel, tmp_path: Path, saved: torch.dtype
) -> None:
    folder, half = make_model("BertForSequenceClassification", ("neg", "pos")), tmp_path / "half"
    transformers.AutoTokenizer.from_pretrained(folder).save_pretrained(half)
    transformers.AutoModelForSequenceClassification.from_pretrained(folder).to(saved).save_pretrained(half)
    teacher = TransformerTeacher(str(half), task=Classification, exact=True)
    assert {weight.dtype for weight in teacher.model.parameters()} == {torch.float32}
    found = teacher.predict(TEXTS, Classification(LabelSet(("neg", "pos"), "single")))
    np.testing.assert_allclose(np.stack(found)[1], by_hand(folder, "bad"), atol=0.01)  # type: ignore[arg-type]


def test_pairs(make_model: MakeModel) -> None:
    folder = make_model("BertForSequenceClassification", ("a", "b"))
    found = TransformerTeacher(str(folder), task=Classification, exact=True).predict(
        [("the film", "is good"), ("bad", "not very bad")], Classification(LabelSet(("a", "b"), "single"))
    )
    np.testing.assert_allclose(found[0], by_hand(folder, "the film", "is good"), atol=1e-5)
    np.testing.assert_allclose(found[1], by_hand(folder, "bad", "not very bad"), atol=1e-5)


def test_several_labels_are_independent(make_model: MakeModel) -> None:
    folder = make_model("BertForSequenceClassification", ("a", "b"))
    found = TransformerTeacher(str(folder), task=MultiLabel, exact=True).predict(
        ["the film"], MultiLabel(LabelSet(("a", "b"), "multi"))
    )
    odds = by_hand(folder, "the film")  # the softmax of two logits is the sigmoid of their difference
    assert found[0] is not None
    logits = np.log(found[0]) - np.log1p(-found[0])
    assert logits[0] - logits[1] == pytest.approx(np.log(odds[0] / odds[1]), abs=1e-4)
    assert found[0].sum() != pytest.approx(1, abs=1e-3)


def test_a_word_has_the_answer_of_its_first_subword(make_model: MakeModel) -> None:
    folder = make_model("BertForTokenClassification", ("O", "B-city", "I-city"))
    teacher = TransformerTeacher(str(folder), task=Tagging, exact=True)
    words = ["flight", "playing", "to", "rome"]  # "playing" is two subwords
    found = teacher.predict([words, ["oslo"]], Tagging(LabelSet(("O", "B-city", "I-city"), "iob")))
    tokenizer, model = teacher.tokenizer, teacher.model
    ids = tokenizer.convert_tokens_to_ids(["[CLS]", "flight", "play", "##ing", "to", "rome", "[SEP]"])
    with torch.no_grad():
        wanted = model(input_ids=torch.tensor([ids])).logits[0].softmax(-1).numpy()
    np.testing.assert_allclose(found[0], wanted[[1, 2, 4, 5]], atol=1e-5)
    assert found[1] is not None
    assert found[1].shape == (1, 3)


@pytest.mark.slow
def test_a_word_without_subwords_shifts_no_other(make_model: MakeModel, tmp_path: Path) -> None:
    folder = make_model("BertForTokenClassification", ("O", "B-city", "I-city"))
    teacher = TransformerTeacher(str(folder), task=Tagging, exact=True)
    labels = Tagging(LabelSet(("O", "B-city", "I-city"), "iob"))
    plain, odd = teacher.predict([["to", "rome"], ["to", "\u200b", "rome"]], labels)
    assert plain is not None
    assert odd is not None
    np.testing.assert_allclose(odd[[0, 2]], plain, atol=1e-5)
    assert not odd[1].any()
    rows = store([(["from", "\u200b", "rome", "playing"], ("O", "O", "B-city", "O"))] * 40)
    config = FineTuneConfig(epochs=6, lr=1e-2, batch_size=16)
    base = str(make_model("BertModel", spread=0.1))
    fine_tune(base, rows, rows, labels, folder=tmp_path / "t", config=config, seed=0)
    found = TransformerTeacher(str(tmp_path / "t"), task=Tagging).predict([["from", "rome", "playing"]], labels)
    assert found[0] is not None
    assert found[0].argmax(-1).tolist() == [0, 1, 0]


def test_words_beyond_the_models_positions_have_no_answer(make_model: MakeModel) -> None:
    folder = make_model("BertForTokenClassification", ("O", "B-city"))
    found = TransformerTeacher(str(folder), task=Tagging, exact=True).predict(
        [["rome"] * 40], Tagging(LabelSet(("O", "B-city"), "iob"))
    )
    assert found[0] is not None
    assert found[0].shape == (22, 2)  # 24 positions with [CLS] and [SEP]


def test_the_key_is_of_weights_and_labels_not_of_the_path(make_model: MakeModel, tmp_path: Path) -> None:
    first = make_model("BertForSequenceClassification", ("a", "b"))
    second = make_model("BertForSequenceClassification", ("a", "c"))
    copy = first.rename(tmp_path / "moved")
    keys = [TransformerTeacher(str(path), task=Classification).key for path in (copy, copy, second)]
    assert keys[0] == keys[1] != keys[2]
    teacher = TransformerTeacher(str(second), task=Classification)
    teacher.predict(["good", "a bad film"], Classification(LabelSet(("a", "c"), "single")))
    assert teacher.key == TransformerTeacher(str(second), task=Classification).key == keys[2]


def test_what_is_no_teacher(make_model: MakeModel, tmp_path: Path) -> None:
    bare = make_model("BertModel")
    with pytest.raises(ModelFileError, match=r"is BertModel, which has no head to classify sequences; .*--fine-tune"):
        TransformerTeacher(str(bare), task=Classification)
    folder = make_model("BertForSequenceClassification", ("a", "b"))
    with pytest.raises(ModelFileError, match="has no head to classify tokens"):
        TransformerTeacher(str(folder), task=Tagging)
    teacher = TransformerTeacher(str(folder), task=Classification)
    with pytest.raises(DataError, match=r"it does not have 'c', and it has 'a', which no training row has"):
        teacher.predict(["x"], Classification(LabelSet(("b", "c"), "single")))
    (folder / "model.safetensors").write_bytes(b"no weights")
    with pytest.raises(ModelFileError, match="cannot be read as a model of the transformers library"):
        TransformerTeacher(str(folder), task=Classification)
    assert not is_transformer(str(tmp_path))
    assert is_transformer("hf:owner/name")


def store(rows: list[tuple[Text, object]]) -> Dataset:
    return Dataset.from_examples(Example(t, y, "x", i) for i, (t, y) in enumerate(rows))  # type: ignore[arg-type]


@pytest.mark.slow
def test_fine_tuning_learns_and_saves(make_model: MakeModel, tmp_path: Path) -> None:
    rows = store([(f"the film is {word}", label) for word, label in (("good", "yes"), ("bad", "no"))] * 40)
    labels = Classification(LabelSet(("no", "yes"), "single"))
    outputs: list[str] = []
    config = FineTuneConfig(epochs=6, lr=1e-2, batch_size=16, max_len=16)
    base, out = str(make_model("BertModel", spread=0.1)), tmp_path / "teacher"
    accuracy = fine_tune(base, rows, rows, labels, folder=out, config=config, seed=0, log=outputs.append)
    assert accuracy == 1
    assert outputs[-1] == "epoch 6, validation accuracy 1.0000"
    assert [path.name for path in tmp_path.iterdir()] == ["teacher"]
    found = TransformerTeacher(str(out), task=Classification).predict(["the film is bad", "good"], labels)
    assert [int(np.argmax(answer)) for answer in found if answer is not None] == [0, 1]


@pytest.mark.slow
def test_a_teacher_of_several_fine_tuned_models_is_their_mean(make_model: MakeModel, tmp_path: Path) -> None:
    rows = store([(f"the film is {word}", label) for word, label in (("good", "yes"), ("bad", "no"))] * 10)
    task, outputs = Classification(LabelSet(("no", "yes"), "single")), []
    base = str(make_model("BertModel", spread=0.1))

    def opened(members: int, seed: int | None = None) -> Teacher:
        tuning = FineTuneConfig(epochs=1)
        config = DistillConfig(teacher=base, fine_tune=True, members=members, seed=seed, tuning=tuning)
        return open_teacher(
            config, rows, rows, task,
            columns=ColumnsConfig(), seed=3, folder=tmp_path, train_member=None, log=outputs.append,
        )  # fmt: skip

    alone = opened(1).predict(TEXTS, task)
    together = opened(2).predict(TEXTS, task)
    assert f"teacher, model 1 of 2: reusing {tmp_path / 'model'}, trained before" in outputs
    each = [
        TransformerTeacher(str(tmp_path / name), task=Classification).predict(TEXTS, task)
        for name in ("model", "model-2")
    ]
    np.testing.assert_allclose(np.stack(each[0]), np.stack(alone), atol=1e-6)  # type: ignore[arg-type]
    np.testing.assert_allclose(np.stack(together), np.mean(each, axis=0), atol=1e-6)  # type: ignore[arg-type]
    assert np.abs(np.stack(each[0]) - np.stack(each[1])).max() > 1e-3  # type: ignore[arg-type]
    assert sum("fine-tuning" in line for line in outputs) == 2
    opened(2, seed=3)
    assert sum("fine-tuning" in line for line in outputs) == 2
    opened(1, seed=4)
    assert sum("fine-tuning" in line for line in outputs) == 3


@pytest.mark.slow
def test_fine_tuning_a_tagger(make_model: MakeModel, tmp_path: Path) -> None:
    sentences: list[tuple[Text, object]] = [
        (["flight", "from", city, "playing"], ("O", "O", "B-city", "O")) for city in ("rome", "oslo")
    ] * 40
    labels = Tagging(LabelSet(("O", "B-city", "I-city"), "iob"))
    config = FineTuneConfig(epochs=6, lr=1e-2, batch_size=16)
    fine_tune(
        str(make_model("BertModel", spread=0.1)), store(sentences), store(sentences), labels,
        folder=tmp_path / "t", config=config, seed=0,
    )  # fmt: skip
    found = TransformerTeacher(str(tmp_path / "t"), task=Tagging).predict([["to", "playing", "oslo"]], labels)
    assert found[0] is not None
    assert found[0].argmax(-1).tolist() == [0, 0, 1]
