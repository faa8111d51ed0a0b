"""Learned transitions between tags: both engines read them, predict the same, and refuse what is none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from onnx import numpy_helper

from mixling import ModelFileError, Predictor
from mixling.runtime import load_native

from .test_ngrams import changed
from .test_words import native_of, predictors

NAME = "tags.transitions"


def of(model: Any) -> Any:
    """The array of a ModelProto."""
    return next(item for item in model.graph.initializer if item.name == NAME)


def with_transitions(content: bytes, values: np.ndarray) -> bytes:
    return changed(content, lambda model: of(model).CopyFrom(numpy_helper.from_array(values, NAME)))


@pytest.fixture
def content(export: Callable[..., bytes]) -> bytes:
    return export(preset="mixling-tiny", task="tagging", precision="float32")


def test_tags_and_probabilities_are_those_of_the_other_engine(
    content: bytes, texts: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    values = np.random.default_rng(0).normal(scale=2, size=(6, 6)).astype(np.float32)
    predictor, other = predictors(with_transitions(content, values), monkeypatch)
    np.testing.assert_array_equal(other.task.transitions, values)
    plain, _ = predictors(with_transitions(content, np.zeros_like(values)), monkeypatch)
    different = 0
    for text in texts[:200]:
        (row,), (read,) = native_of(predictor).logits([text])
        task, found, expected = other.task, predictor.predict_one(text), other.predict_one(text)
        assert found.tags == expected.tags
        for one, two in zip(found.spans or (), expected.spans or (), strict=True):
            assert one.score == pytest.approx(two.score, abs=1e-5)
        if len(row):
            own = task.probabilities(row)[np.arange(len(row)), read.tags]  # type: ignore[union-attr]
            np.testing.assert_allclose(read.probabilities, own, rtol=0, atol=1e-6)  # type: ignore[union-attr]
        different += found.tags != plain.predict_one(text).tags
    assert different > 20


def test_extreme_transitions(content: bytes, texts: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.random.default_rng(1).choice([-3e4, 0, 3e4], size=(6, 6)).astype(np.float32)
    predictor, other = predictors(with_transitions(content, values), monkeypatch)
    for text in texts[:50]:
        found, expected = predictor.predict_one(text), other.predict_one(text)
        assert found.tags == expected.tags
        assert all(0 <= span.score <= 1 for span in found.spans or ())


@pytest.mark.parametrize(
    "values", [np.zeros((6, 5), np.float32), np.zeros(36, np.float32), np.full((6, 6), np.nan, np.float32)]
)
def test_damaged_transitions_are_refused(content: bytes, values: np.ndarray) -> None:
    damaged = with_transitions(content, values)
    with pytest.raises(ModelFileError, match=r"its transitions are .*; 6 tags need finite float32 \(6, 6\)"):
        Predictor(damaged)
    engine, reason = load_native(damaged)
    assert engine is None
    assert reason == "its transitions between tags are not a finite number for each pair of tags"


def test_only_taggers_have_them(export: Callable[..., bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MIXLING_ENGINE", "onnx")
    array = numpy_helper.from_array(np.zeros((3, 3), np.float32), NAME)
    other = changed(export(preset="mixling-tiny"), lambda model: model.graph.initializer.append(array))
    with pytest.raises(ModelFileError, match="models of classification have none"):
        Predictor(other)
