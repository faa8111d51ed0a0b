"""A model that needs ONNX Runtime is refused with the remedy where it is not installed."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from mixling import Predictor
from mixling.errors import MissingPackage
from mixling.runtime.onnx import engine

GOLDEN = Path(__file__).parents[1] / "golden" / "model-v1.onnx"


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
