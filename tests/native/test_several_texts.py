"""Three texts that belong together: C and JavaScript answer as ONNX Runtime, by place and by name."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from mixling import ModelFileError, Predictor
from mixling.export import amend

from .test_logits import check
from .test_ngrams import with_branch

NAMES = ("title", "body", "the note")
ANSWERS = Path(__file__).parents[1] / "browser" / "answers.mjs"
PACKAGE = Path(__file__).parents[2] / "src" / "mixling" / "browser" / "package" / "index.js"
TEXTS = [
    ("what a film", "What? A film!", "no"),
    ("", "", ""),
    ("", "only the body", ""),
    ("ΟΔΟΣ a", "οδος", "A b"),
    ("\ud800 x", "x\x00y", "\ufeffx 🫨"),
    ("b " * 300, "word " * 40, "c"),
    ("a", "b " * 300, "word " * 300),
    ("a b c", "c b a", "b"),
    ("b", "a b c", "c b a"),
]


@pytest.fixture(scope="module")
def content(export: Callable[..., bytes]) -> bytes:
    """A model of three texts that have names."""
    made = export("mixling-tiny", pairs=True, text={"segments": 3, "overlap": True})
    return amend(made, texts=list(NAMES))


def test_logits_are_those_of_onnx_runtime(content: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    assert Predictor(content).text_names == NAMES
    check(content, TEXTS, monkeypatch)


@pytest.mark.parametrize("segments", [0, 3, 8])
def test_logits_with_an_ngram_branch(
    export: Callable[..., bytes], monkeypatch: pytest.MonkeyPatch, segments: int
) -> None:
    made = export("mixling-tiny", pairs=True, text={"segments": segments, "overlap": True})
    check(with_branch(amend(made, texts=list(NAMES)), TEXTS, 3), TEXTS, monkeypatch)


def test_long_texts_are_read_to_their_end(content: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    native = Predictor(content).predict(TEXTS)
    monkeypatch.setenv("MIXLING_ENGINE", "onnx")
    for got, expected in zip(native, Predictor(content).predict(TEXTS), strict=True):
        assert (got.truncated, got.empty) == (expected.truncated, expected.empty)
        assert got.probabilities == pytest.approx(expected.probabilities, abs=1e-4)


def test_the_order_of_the_texts_counts(content: bytes) -> None:
    predictor = Predictor(content)
    first, last = (predictor.predict_one(text).probabilities for text in TEXTS[-2:])
    assert first is not None
    assert last is not None
    assert max(abs(first[name] - last[name]) for name in first) > 1e-3


def test_more_texts_than_marks_are_no_model(export: Callable[..., bytes]) -> None:
    made = export("mixling-tiny", pairs=True)  # with embeddings for two
    with pytest.raises(ModelFileError, match="segments"):
        Predictor(amend(made, texts=list(NAMES)))


@pytest.mark.skipif(shutil.which("node") is None, reason="there is no node")
@pytest.mark.slow  # starts node
def test_javascript_answers_alike(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "model.onnx").write_bytes(content)
    known = [texts for texts in TEXTS if "\ud800" not in texts[0]]
    inputs = [dict(zip(NAMES, texts, strict=True)) for texts in known]
    given = json.dumps({"model": str(tmp_path / "model.onnx"), "inputs": inputs, "explained": inputs[:1]})
    command = [str(shutil.which("node")), str(ANSWERS), str(PACKAGE)]
    done = subprocess.run(command, input=given, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    predictor = Predictor(content)
    for item, expected in zip(found["out"], predictor.text_logits(known), strict=True):
        np.testing.assert_allclose(item["logits"], expected, atol=1e-4)
    explained = predictor.explain(known[0], method="leave_one_out")
    assert [word["part"] for word in found["explanations"][0]["words"]] == [word.part for word in explained.words]
    effects = [word["effect"] for word in found["explanations"][0]["words"]]
    assert effects == pytest.approx([word.effect for word in explained.words], abs=1e-3)
    less = json.dumps({"model": str(tmp_path / "model.onnx"), "inputs": [{"title": "a", "body": "b"}], "explained": []})
    done = subprocess.run(command, input=less, capture_output=True, text=True, timeout=60)
    assert 'has no text "the note"' in done.stderr
