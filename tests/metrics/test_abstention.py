"""The threshold of abstaining, against trying all thresholds."""

from __future__ import annotations

import json

import numpy as np
import pytest

from mixling.answers import LabelSet
from mixling.metrics import ClassificationMetrics, choose_abstention
from mixling.tasks import Classification
from mixling.text import Encoded


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("wanted", [0.5, 0.8, 0.9, 0.97])
def test_the_threshold_has_the_largest_coverage_of_all(seed: int, wanted: float) -> None:
    rng = np.random.default_rng(seed)
    confidence = np.round(0.01 + 0.99 * rng.random(200), 2)  # with ties
    right = rng.random(200) < confidence
    found = choose_abstention(right, confidence, wanted=wanted)
    possible = []
    for threshold in np.unique(confidence):
        answered = confidence >= threshold
        possible.append((right[answered].sum() / (answered.sum() + 1), answered.mean()))  # one more is wrong
    reached = [coverage for accuracy, coverage in possible if accuracy >= wanted]
    if reached:
        assert found.threshold is not None
        answered = confidence >= found.threshold
        assert answered.mean() == found.coverage == max(reached)
        assert right[answered].mean() == pytest.approx(found.accuracy)
        assert not (np.abs(confidence - found.threshold) < 1e-3).any()
    else:
        assert found.threshold is None
        assert found.accuracy == pytest.approx(max(accuracy for accuracy, _ in possible))
        assert (found.accuracy, found.coverage) in [(pytest.approx(a), c) for a, c in possible]


def test_few_examples() -> None:
    found = choose_abstention(np.array([True, True, False]), np.array([0.9, 0.6, 0.5]), wanted=0.6)
    assert (found.threshold, found.coverage, found.accuracy) == (0.55, 2 / 3, 1)
    found = choose_abstention(np.ones(3, bool), np.array([0.9, 0.6, 0.5]), wanted=0.75)
    assert (found.threshold, found.coverage) == (0.25, 1)
    for number, threshold in ((19, 0.25), (18, None)):
        found = choose_abstention(np.ones(number, bool), np.full(number, 0.5), wanted=0.95)
        assert found.threshold == threshold
        assert found.accuracy == (1 if threshold else number / (number + 1))
    nothing = choose_abstention(np.array([True, False]), np.array([0.6, 0.9]), wanted=0.9)
    assert (nothing.threshold, nothing.accuracy, nothing.coverage) == (None, 1 / 3, 1.0)
    again = choose_abstention(np.array([True, False]), np.array([0.6, 0.9]), wanted=nothing.accuracy)
    assert again.threshold is not None


@pytest.mark.parametrize(("number", "wanted"), [(150, 0.95), (700, 0.99)])
def test_new_answers_have_the_wanted_accuracy_on_average(number: int, wanted: float) -> None:
    rng = np.random.default_rng(0)
    every = rng.beta(4, 0.45, 20_000)  # the probability that an answer is right, which is the confidence
    found, plain = [], []
    for _ in range(60):
        confidence = rng.choice(every, number)
        right = rng.random(number) < confidence
        chosen = choose_abstention(right, confidence, wanted=wanted)
        if chosen.threshold is not None:
            found.append(every[every >= chosen.threshold].mean())
            plain.append(chosen.accuracy)
    assert len(found) > 50
    assert np.mean(found) >= wanted
    assert np.mean(found) < np.mean(plain)  # those that it was chosen on


def test_answers_and_metrics_below_the_threshold() -> None:
    task = Classification(LabelSet(("a", "b"), "single"))
    logits = np.log([[0.9, 0.1], [0.6, 0.4], [0.3, 0.7]])
    read = [Encoded(np.zeros(1, np.int32), None, False, 0)] * 3
    plain = task.decode_many(list(logits), read, ["", "", ""])
    assert [item.abstained for item in plain] == [None] * 3
    assert "abstained" not in plain[0].to_dict()
    full = task.evaluate(list(logits), np.array([0, 1, 1]))
    assert (full.coverage, full.accuracy_of_answered) == (None, None)
    assert "answered" not in full.summary()
    task.threshold = 0.65
    lines = task.json_lines(logits, read)
    assert [json.loads(line)["abstained"] for line in lines] == [False, True, False]
    for found in (
        task.decode_many(list(logits), read, ["", "", ""]),
        [task.decode(row, read[0], "") for row in logits],
    ):
        assert [item.abstained for item in found] == [False, True, False]
        assert [item.label for item in found] == ["a", "a", "b"]
    assert found[1].to_dict()["abstained"] is True
    assert task.csv_values(found[1]) == ["", "0.600000"]
    assert task.lines(found[1])[0] == "(abstained: a?)"
    metrics = task.with_unknown(["c"]).evaluate(list(logits), np.array([0, 1, 2]))
    assert isinstance(metrics, ClassificationMetrics)
    assert metrics.coverage == pytest.approx(2 / 3)
    assert metrics.accuracy_of_answered == 0.5
    assert metrics.summary().endswith("; answered 66.7%, of these 0.5000 right")
    task.threshold = 0.95
    assert task.evaluate(list(logits), np.array([0, 1, 1])).accuracy_of_answered is None
