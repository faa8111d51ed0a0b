"""The way of a user whose rows are pairs of texts."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from mixling import Predictor

from .conftest import Call


@pytest.fixture(scope="module")
def pairs(call: Call, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with pairs.csv and the run `model` that was trained on it."""
    folder = tmp_path_factory.mktemp("pairs")
    rows = [f"a {word} number {i},is it {word},{i % 2}" for i in range(30) for word in ("film", "plot")]
    (folder / "pairs.csv").write_text("\n".join(["premise,claim,label", *rows]) + "\n")
    columns = ["--text", "premise", "--text-pair", "claim"]
    done = call("train", folder / "pairs.csv", *columns, "--epochs", 1, "-o", folder / "model")
    assert done.code == 0, done.err
    return folder


def test_files_of_pairs_are_answered_and_evaluated(call: Call, pairs: Path, tmp_path: Path) -> None:
    lone = shutil.copy(pairs / "model" / "model.onnx", tmp_path / "lone.onnx")
    columns = ["--text", "premise", "--text-pair", "claim"]
    known = call("predict", pairs / "model", pairs / "pairs.csv")
    assert len(known.out.splitlines()) == 60
    assert known.out == call("predict", lone, pairs / "pairs.csv", *columns).out
    first = Predictor(lone).predict(("a film number 0", "is it film"))
    assert json.loads(known.out.splitlines()[0])["probabilities"] == pytest.approx(first.probabilities, abs=1e-5)
    assert call("evaluate", pairs / "model", pairs / "pairs.csv").code == 0


def test_one_text_is_refused_by_a_model_of_pairs(call: Call, pairs: Path, tmp_path: Path) -> None:
    lone = shutil.copy(pairs / "model" / "model.onnx", tmp_path / "lone.onnx")
    for done in (
        call("predict", pairs / "model", "a text"),
        call("predict", pairs / "model", "-", stdin=b"a text\n"),
        call("predict", lone, pairs / "pairs.csv", "--text", "premise"),
        call("evaluate", lone, pairs / "pairs.csv", "--text", "premise"),
    ):
        assert (done.code, done.out) == (2, "")
        assert "item 0 is one text; this model was trained on pairs: pass (first, second)" in done.err
        assert "each with --text" in done.err
        assert "Traceback" not in done.err


def test_a_pair_is_refused_by_a_model_of_single_texts(call: Call, model: Path, pairs: Path) -> None:
    done = call("predict", model, pairs / "pairs.csv", "--text", "premise", "--text-pair", "claim")
    assert (done.code, done.out) == (2, "")
    assert "item 0 is a pair of texts; this model was trained on single texts" in done.err


def test_an_export_and_the_card_know_of_the_pairs(call: Call, pairs: Path, tmp_path: Path) -> None:
    has = json.loads(call("show", pairs / "model", "--json").out)["precision"]
    other = "float32" if has == "int8" else "int8"
    assert call("export", pairs / "model", "-o", tmp_path / "a.onnx", "--precision", other).code == 0
    assert Predictor(tmp_path / "a.onnx").metadata.pairs is True
    card = (pairs / "model" / "README.md").read_text()
    assert "mixling predict . rows.csv" in card
    assert 'predictor.predict({"premise": "a text", "claim": "another"})' in card
