"""`mixling vectors`, and trainings that begin with them."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from mixling.text import WordVectors

from .conftest import Call

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


def test_vectors_are_made_and_a_training_begins_with_them(call: Call, corpus: Path, tmp_path: Path) -> None:
    done = call("vectors", corpus / "text.txt", "-o", tmp_path / "start", "--set", "dim=8")
    assert done.code == 0, done.err
    assert done.out == "90 words of 2,400, vectors of width 8\n"
    assert f"mixling train FILE --init-embeddings {tmp_path / 'start'}" in done.err
    assert WordVectors.load(tmp_path / "start").vectors.shape == (90, 8)
    outs = {}
    for name, options in {
        "start": ["--init-embeddings", tmp_path / "start"],
        "unlabeled": ["--unlabeled", corpus / "text.txt"],
        "own": ["--set", "init.training_texts=true"],
    }.items():
        done = call("train", corpus / "rows.csv", "-o", tmp_path / name, "--verbose", *QUICK, *options)
        assert done.code == 0, done.err
        assert "% of the variance of their vectors" in done.err
        outs[name] = done.err
    # The texts of the training rows are counted, too.
    assert "word vectors: 90 different words, counted in a text of 3,0" in outs["unlabeled"]
    saved = json.loads((tmp_path / "start" / "vectors.json").read_text())
    assert saved["config"]["dim"] == 8


@pytest.mark.parametrize(
    ("options", "reported"),
    [
        (["--init-embeddings", "nowhere"], "nowhere: has no word vectors; make them: mixling vectors FILES -o DIR"),
        (["--unlabeled", "nowhere.txt"], "nowhere.txt: no such file"),
        (["--init-embeddings", "x", "--unlabeled", "y.txt"], "init: vectors cannot be combined with texts"),
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


@pytest.mark.parametrize(
    ("options", "reported"),
    [(["--set", "dimm=8"], "did you mean 'dim'"), (["--set", "dim=4000"], "dim: got 4000")],
)
def test_how_words_are_counted_is_checked(
    call: Call, corpus: Path, tmp_path: Path, options: list, reported: str
) -> None:
    done = call("vectors", corpus / "text.txt", "-o", tmp_path / "start", *options)
    assert (done.code, list(tmp_path.iterdir())) == (2, [])
    assert reported in done.err
