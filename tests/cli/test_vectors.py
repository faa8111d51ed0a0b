"""Trainings that begin with word vectors."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from mixling.text import VectorConfig, train_vectors

from .conftest import Call

WHOLE = ["--test-fraction", "0"]
QUICK = ["--epochs", "1", "--set", "model.dim=8", "--set", "model.num_layers=0"]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Documents of made-up words, a line each, and labeled rows of some of them."""
    folder = tmp_path_factory.mktemp("corpus")
    rng = random.Random(0)
    words = ["".join(rng.choices("aeioubdfglm", k=5)) for _ in range(90)]
    documents = [" ".join(rng.choices(words[i % 3 * 30 : i % 3 * 30 + 30], k=12)) for i in range(200)]
    (folder / "text.txt").write_text("".join(f"{line}\n" for line in documents))
    rows = "".join(f'"{line}",{"abc"[i % 3]}\n' for i, line in enumerate(documents[:60]))
    (folder / "rows.csv").write_text(f"text,label\n{rows}")
    return folder


def test_a_training_begins_with_vectors(call: Call, corpus: Path, tmp_path: Path) -> None:
    vectors = train_vectors((corpus / "text.txt").read_text().splitlines(), VectorConfig(dim=8))
    vectors.save(tmp_path / "start")
    assert vectors.vectors.shape == (90, 8)
    outs = {}
    for name, options in {
        "start": ["--set", f"init.vectors={tmp_path / 'start'}"],
        "unlabeled": ["--unlabeled", corpus / "text.txt"],
        "own": ["--set", "init.training_texts=true"],
    }.items():
        done = call("train", corpus / "rows.csv", "-o", tmp_path / name, "--verbose", *QUICK, *options, *WHOLE)
        assert done.code == 0, done.err
        assert "% of the variance of their vectors" in done.err
        outs[name] = done.err
    # The texts of the training rows are counted, too.
    assert "word vectors: 90 different words, counted in a text of 3,0" in outs["unlabeled"]


@pytest.mark.parametrize(
    ("options", "reported"),
    [
        (["--set", "init.vectors=nowhere"], "nowhere: has no word vectors, as WordVectors.save writes them"),
        (["--unlabeled", "nowhere.txt"], "nowhere.txt: no such file"),
        (["--set", "init.vectors=x", "--unlabeled", "y.txt"], "init: vectors cannot be combined with texts"),
        (["--unlabeled", "other.csv"], "no column 'text'"),
        (["--unlabeled", "rows.csv", "--model", "hypermixer"], "needs hashed features; projection 'subwords' has none"),
    ],
)
def test_a_start_that_cannot_be_is_reported(
    call: Call, corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: list[str], reported: str
) -> None:
    monkeypatch.chdir(corpus)
    Path("other.csv").write_text("body\nsome words\n")
    done = call("train", "rows.csv", "-o", tmp_path / "out", *options)
    assert done.code == 2
    assert reported in done.err
    assert "Traceback" not in done.err
