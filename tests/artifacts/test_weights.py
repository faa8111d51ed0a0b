import random
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from mixling import DataError, ModelConfig, ModelFileError, TextConfig, TextEncoder, UserError, Vocabulary, build_model
from mixling.answers import LabelSet
from mixling.artifacts import write_model
from mixling.artifacts.weights import read_weights
from mixling.models import Model, weights_of
from mixling.research import load_model
from mixling.research.pretraining import CorpusConfig, WordReader, open_prepared, prepare
from mixling.runs import pretrained_config
from mixling.storage import read_json, sha256_of, write_sealed
from mixling.tasks import Classification
from mixling.teachers import FunctionTeacher, collect_predictions
from mixling.text import MinHash, SubwordTokenizer, VectorConfig, WordVectors, train_vectors

TASK = Classification(LabelSet(("no", "yes"), "single"))
TEXT = TextConfig(projection=MinHash(num_features=16, num_hashes=4), max_len=8)
CONFIG = ModelConfig(text=TEXT, dim=4)


def vocabulary() -> Vocabulary:
    return Vocabulary.train(["the film is good", "a dull plot"] * 9, size=100)


def save_folder(folder: Path, config: ModelConfig = CONFIG) -> Model:
    name, content = vocabulary().serialize()
    (folder / name).write_text(content)
    model = build_model(CONFIG, num_outputs=2, output="text", seed=1)
    saved = {"task": "classification", "model": config.to_dict(), "labels": TASK.labels.to_dict(), "vocabulary": name}
    write_model(folder, weights_of(model), saved)
    return model


def flipped(path: Path, read: Callable[[], object], *, count: int) -> None:
    """Flip bits, one at a time: each must be refused."""
    good, draw = path.read_bytes(), random.Random(path.name)
    for _ in range(count):
        location, bit = draw.randrange(len(good)), draw.randrange(8)
        path.write_bytes(good[:location] + bytes([good[location] ^ 1 << bit]) + good[location + 1 :])
        with pytest.raises(UserError):
            read()
    path.write_bytes(good)
    read()


def test_a_folder_with_one_flipped_bit_is_refused(tmp_path: Path) -> None:
    model = save_folder(tmp_path)
    loaded = load_model(tmp_path)[0]
    assert all(torch.equal(value, loaded.state_dict()[name]) for name, value in model.state_dict().items())
    assert len(list(tmp_path.iterdir())) == 3
    for path in sorted(tmp_path.iterdir()):
        flipped(path, lambda: load_model(tmp_path), count=40)


def test_vectors_answers_and_corpora_with_one_flipped_bit_are_refused(tmp_path: Path) -> None:
    texts = ["a b c d e f g h", "b c d a", "g h f e"] * 5
    config = VectorConfig(dim=2, max_words=9, max_contexts=9)
    train_vectors(texts, config).save(tmp_path / "vectors")
    for path in sorted((tmp_path / "vectors").iterdir()):
        flipped(path, lambda: WordVectors.load(tmp_path / "vectors"), count=60)

    teacher = FunctionTeacher(lambda texts: np.full((len(texts), 2), 0.5), key="k")
    task = TASK
    collect_predictions(teacher, texts, task, folder=tmp_path / "answers")
    (answers,) = (tmp_path / "answers").iterdir()
    flipped(answers, lambda: collect_predictions(teacher, texts, task, folder=tmp_path / "answers"), count=40)

    (tmp_path / "t.txt").write_text("\n".join(texts))
    reader = WordReader(TextEncoder(TEXT, vocabulary()))
    corpus = CorpusConfig(files=(str(tmp_path / "t.txt"),), validation_fraction=0.3)
    prepare(corpus, reader, tmp_path / "corpus", lambda line: None)
    assert len(list((tmp_path / "corpus").iterdir())) == 5
    for path in sorted((tmp_path / "corpus").iterdir()):
        flipped(path, lambda: open_prepared(tmp_path / "corpus", reader), count=20)


def test_weights_that_are_not_finite_are_refused(tmp_path: Path) -> None:
    save_folder(tmp_path)
    for value in (float("nan"), float("inf")):
        weights = load_file(tmp_path / "model.safetensors")
        weights["head.output.weight" if "head.output.weight" in weights else sorted(weights)[0]].flatten()[0] = value
        save_file(weights, tmp_path / "model.safetensors")
        saved = {**read_json(tmp_path / "config.json"), "weights_sha256": sha256_of(tmp_path / "model.safetensors")}
        write_sealed(tmp_path / "config.json", saved)
        with pytest.raises(ModelFileError, match="not finite"):
            read_weights(tmp_path, saved)
        with pytest.raises(ModelFileError, match="not finite"):
            load_model(tmp_path)


@pytest.mark.parametrize(
    "changes",
    [
        {"dim": 1e30},
        {"dim": 2**39},
        {"dim": 10_000_000},
        {"dim": 8},
        {"num_layers": 10**9, "layers": [{}]},
        {"text": {"max_len": 1e30}},
        {"embedding": {"window": 8, "window_type": "factorized"}},
    ],
)
def test_a_model_that_its_weights_do_not_fill_takes_up_no_memory(changes: dict, tmp_path: Path) -> None:
    save_folder(tmp_path)
    saved = read_json(tmp_path / "config.json")
    model = {**saved["model"], **{key: value for key, value in changes.items() if not isinstance(value, dict)}}
    for key, value in changes.items():
        if isinstance(value, dict):
            model[key] = {**saved["model"][key], **value}
    write_sealed(tmp_path / "config.json", {**saved, "model": model})
    for read in (load_model, pretrained_config):
        with pytest.raises(ModelFileError):
            read(str(tmp_path))


def test_a_corpus_of_an_older_version_is_made_again(tmp_path: Path) -> None:
    (tmp_path / "corpus.json").write_text('{"format_version": 1, "reading": {}, "digest": "", "words": []}')
    with pytest.raises(DataError, match="delete it to prepare it again"):
        open_prepared(tmp_path, WordReader(TextEncoder(TEXT, vocabulary())))


@pytest.mark.parametrize("score", [float("nan"), float("-inf")])
def test_a_score_that_is_not_finite_is_an_error(score: float, monkeypatch: pytest.MonkeyPatch) -> None:
    from mixling.research.seq2seq import GenerationConfig
    from mixling.research.seq2seq import generator as module

    class Probabilities:
        subwords, stopped = (), True

        def __init__(self) -> None:
            self.score = score

    made = object.__new__(module.TextGenerator)
    made.coder = SubwordTokenizer.train(["a film", "a plot"] * 50, size=50)
    made.device, made.generation, made.model = torch.device("cpu"), GenerationConfig(), None  # type: ignore[assignment]
    monkeypatch.setattr(module, "generate", lambda *arguments, **options: [Probabilities()])
    with pytest.raises(ModelFileError, match="not finite"):
        made.generate_encoded([np.array([3, made.coder.eos_id], np.int32)])
