"""A file of format version 1 that was saved once is read for ever: hashes, vocabulary, graph and metadata together."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from mixling import Predictor

HERE = Path(__file__).parent


@pytest.mark.skipif(find_spec("onnxruntime") is None, reason="its file is older than plans for the native engine")
def test_the_saved_model_of_version_1_still_gives_its_answers() -> None:
    saved = json.loads((HERE / "model-v1.json").read_text("utf-8"))
    predictor = Predictor(HERE / "model-v1.onnx", too_long="truncate")
    assert predictor.metadata.format_version == 1
    assert predictor.metadata.pairs is None  # the file is older than the key
    assert predictor.predict(("what a", "film")).label
    assert predictor.labels.names == ("bad", "good", "über")
    logits = np.stack(predictor.logits(predictor.tokenize(saved["texts"])))
    # The expected numbers are the float model's; 8-bit weights are off by a part of a percent.
    np.testing.assert_allclose(logits, saved["float_logits"], atol=0.02)
    assert [p.truncated for p in predictor.predict(saved["texts"])] == [False, False, False, True]


def test_the_first_plan_still_gives_its_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    saved = json.loads((HERE / "plan-v1.json").read_text("utf-8"))
    monkeypatch.setenv("MIXLING_ENGINE", "native")
    predictor = Predictor(HERE / "plan-v1.onnx", too_long="truncate")
    assert predictor.engine.startswith("native")
    found = predictor.predict(saved["texts"])
    expected = np.exp(saved["float_logits"])
    expected /= expected.sum(1, keepdims=True)
    got = [list(item.probabilities.values()) for item in found]
    # The expected numbers are the float model's; 8-bit weights are off by a part of a percent.
    np.testing.assert_allclose(got, expected, atol=0.01)
    assert [p.truncated for p in found] == [False, False, False, True]
