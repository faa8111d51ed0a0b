"""A model that needs ONNX Runtime is refused with the remedy where it is not installed."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from mixling import Predictor, TextConfig
from mixling.config import parse
from mixling.errors import MissingPackage
from mixling.runtime.onnx import engine
from mixling.text import train_vocabulary

GOLDEN = Path(__file__).parents[1] / "golden" / "model-v1.onnx"


@pytest.mark.parametrize(
    ("changes", "what"),
    [({"vocabulary_kind": "unigram"}, "WordPiece"), ({"projection": {"type": "simhash"}}, "projection 'simhash'")],
)
def test_a_training_whose_model_needs_it_is_refused(
    changes: dict[str, Any], what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = parse(TextConfig, changes, where="test")
    vocabulary = train_vocabulary(["what a film"], text)
    engine.check_engine(text, vocabulary)
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(MissingPackage, match=rf"{what}.* needs ONNX Runtime.*\[onnx\]"):
        engine.check_engine(text, vocabulary)
    engine.check_engine(TextConfig(), train_vocabulary(["what a film"], TextConfig()))


def test_a_model_that_needs_it_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MIXLING_ENGINE", "onnx")
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    engine._onnxruntime.cache_clear()
    try:
        reason = r"cannot compute \(MIXLING_ENGINE is onnx\) needs ONNX Runtime.*\[onnx\]"
        with pytest.raises(MissingPackage, match=reason):
            Predictor(GOLDEN)
    finally:
        engine._onnxruntime.cache_clear()
