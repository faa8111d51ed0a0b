"""Predictions as JSON values."""

from __future__ import annotations

from mixling import Prediction
from mixling.text.predictions import prediction_of_label


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
