"""Predictions and metrics have the most probable legal tags."""

from __future__ import annotations

import numpy as np
import pytest

from mixling.answers import LabelSet
from mixling.tasks import Tagging
from mixling.text import Encoded

TASK = Tagging(Tagging.tags(["B-city", "B-time"]))
NAMES = TASK.labels.names  # O, B-city, B-time, I-city, I-time


def test_predictions_and_metrics_have_the_legal_tags() -> None:
    # The greatest logits are O, I-city; the sum of B-city, I-city is greater than that of O, O.
    logits = np.array([[2.0, 1.9, 0, 0, 0], [0.5, 0, 0, 2.0, 0]], np.float32)
    encoded = Encoded(np.array([5, 6], np.int32), [(0, 3), (4, 8)], truncated=False, generation=0)
    found = TASK.decode(logits, encoded, "new york")
    assert found.tags == ("B-city", "I-city")
    assert [(span.label, span.start, span.end) for span in found.spans or ()] == [("city", 0, 8)]
    probabilities = TASK.probabilities(logits)
    assert (found.spans or ())[0].score == pytest.approx((probabilities[0, 1] + probabilities[1, 3]) / 2)
    targets = TASK.targets([("B-city", "I-city")])
    assert TASK.evaluate([logits], targets).span_f1 == 1
    gate = TASK.compare_quantized([logits], [logits + np.array([[0.2, 0, 0, 0, 0], [0] * 5], np.float32)], targets)
    assert gate.changed == 0


def test_transitions_decide_tags_and_probabilities() -> None:
    task = Tagging(TASK.labels)
    logits = np.array([[1.0, 0.9, 0.8, 0, 0], [1.0, 0, 0, 0, 0]], np.float32)
    assert task.best_tags(logits).tolist() == [0, 0]
    transitions = np.zeros((5, 5), np.float32)
    transitions[2, 0] = 2  # O after B-time
    task.transitions = transitions
    assert task.best_tags(logits).tolist() == [2, 0]
    encoded = Encoded(np.array([5, 6], np.int32), [(0, 3), (4, 8)], truncated=False, generation=0)
    (span,) = task.decode(logits, encoded, "now york").spans or ()
    assert (span.label, span.score) == ("time", pytest.approx(task.probabilities(logits)[0, 2]))
    unseen = task.with_unknown([("B-more", "I-more")])
    assert unseen.best_tags(logits).tolist() == [2, 0]
    # Calibration and explanations see words whose logits are those of the same probabilities.
    rows, _ = task.decisions([logits], task.targets([("B-time", "O")]))
    np.testing.assert_allclose(np.exp(rows), task.probabilities(logits), rtol=1e-6, atol=1e-20)


def test_a_type_without_a_beginning_is_unconstrained() -> None:
    task = Tagging(LabelSet(("O", "B-a", "I-a", "I-b"), "iob"))
    assert task.best_tags(np.eye(4)[[0, 3, 2]]).tolist() == [0, 3, 0]


def test_unseen_tags_have_no_logits() -> None:
    task = TASK.with_unknown([("B-more", "I-more")])
    assert isinstance(task, Tagging)
    assert task.best_tags(np.eye(5)[[1, 3]]).tolist() == [1, 3]
