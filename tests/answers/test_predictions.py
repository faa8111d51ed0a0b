"""Predictions as JSON values."""

from __future__ import annotations

import copy
import math
import pickle

import pytest

from mixling import Prediction, Span
from mixling.answers.predictions import prediction_of_label
from mixling.tasks import Classification


def test_values_of_a_prediction_are_the_same_however_it_was_made() -> None:
    class Read:
        truncated, is_empty = True, False

    of_label = prediction_of_label("a", lambda row: {"a": row, "b": 1 - row}, 0.75, Read(), False, ("a", "b"))
    whole = Prediction(
        truncated=True, label="a", abstained=False, label_set=("a", "b"), probabilities={"a": 0.75, "b": 0.25}
    )
    assert of_label.to_dict() == whole.to_dict() == {
        "label": "a", "abstained": False, "label_set": ["a", "b"], "probabilities": {"a": 0.75, "b": 0.25},
        "truncated": True,
    }  # fmt: skip
    assert list(of_label.to_dict()) == list(whole.to_dict())
    assert Prediction(truncated=False, label="a", value=2.0).to_dict() == {
        "label": "a", "value": 2.0, "truncated": False
    }  # fmt: skip


def test_the_probability_of_an_answer_that_is_not_the_most_probable() -> None:
    prediction = Prediction(truncated=False, label="a", probabilities={"a": 0.4, "b": 0.6})
    assert prediction.probability == 0.4
    assert math.isnan(prediction.top(1).probability)
    assert Classification.csv_values(prediction.top(1))[0] == "a"


def test_a_prediction_is_a_value() -> None:
    one = Prediction(truncated=True, spans=(Span("city", 3, 9, 0.5),), value=0.0)
    assert repr(one) == (
        "Prediction(truncated=True, spans=(Span(label='city', start=3, end=9, score=0.5),), value=0.0)"
    )
    assert one == Prediction(truncated=True, spans=(Span("city", 3, 9, 0.5),), value=0.0)
    assert one != Prediction(truncated=True, spans=(Span("city", 3, 9, 0.5),))
    assert one != one.to_dict()
    assert len({one, copy.copy(one), pickle.loads(pickle.dumps(one))}) == 1
    assert (one.empty, one.label) == (False, None)
    for change in (lambda: setattr(one, "label", "a"), lambda: delattr(one, "truncated"), lambda: setattr(one, "x", 1)):
        with pytest.raises(AttributeError, match="predictions do not change"):
            change()
    with pytest.raises(AttributeError, match=r"'Prediction' object has no attribute 'score'"):
        one.score  # type: ignore[attr-defined]  # noqa: B018
    with pytest.raises(TypeError, match="truncated"):
        Prediction()  # type: ignore[call-arg]
