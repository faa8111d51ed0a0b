"""Reliability: the bins by loops, and the diagram."""

from __future__ import annotations

import math

import numpy as np
import pytest

from mixling.answers import LabelSet
from mixling.metrics import ReliabilityBin, calibration_error, calibration_error_by_chance
from mixling.metrics.base import MultiLabelMetrics, TaggingMetrics
from mixling.metrics.reliability import format_reliability, reliability
from mixling.tasks import MultiLabel, Tagging


def test_bins_by_loops() -> None:
    rng = np.random.default_rng(0)
    probabilities = np.append(rng.random(300) ** 2, [0.0, 1.0])
    right = rng.random(302) < probabilities
    bins = reliability(right, probabilities)
    error = 0.0
    for number, found in enumerate(bins):
        members = [i for i, p in enumerate(probabilities) if min(int(p * 15), 14) == number]
        if not members:
            assert found is None
            continue
        assert found is not None
        assert found.count == len(members)
        assert found.confidence == pytest.approx(sum(probabilities[i] for i in members) / len(members))
        assert found.accuracy == pytest.approx(sum(right[i] for i in members) / len(members))
        error += len(members) / 302 * abs(found.accuracy - found.confidence)
    assert calibration_error(bins) == pytest.approx(error)
    assert calibration_error(reliability(np.zeros(0, bool), np.zeros(0))) == 0


def test_what_chance_gives_a_calibrated_model_by_summing_over_all_outcomes() -> None:
    cases = ((1, 0.5), (10, 0.3), (7, 0.99), (200, 0.61), (3, 1.0), (4, 0.0))
    bins = tuple(ReliabilityBin(n, p, accuracy=0.0) for n, p in cases)
    wanted = 0.0
    for n, p in cases:
        chances = [math.comb(n, k) * p**k * (1 - p) ** (n - k) for k in range(n + 1)]
        wanted += sum(chance * abs(k - n * p) for k, chance in enumerate(chances))
    total = sum(n for n, _ in cases)
    assert calibration_error_by_chance((*bins, None)) == pytest.approx(wanted / total, rel=1e-9)
    assert calibration_error_by_chance((None,)) == 0
    many = ReliabilityBin(10**7, 0.7, 0.7)
    assert calibration_error_by_chance((many,)) == pytest.approx(math.sqrt(2 * 0.7 * 0.3 / math.pi / 10**7), rel=1e-3)


def test_the_diagram_has_a_bar_for_each_bin_that_is_not_empty() -> None:
    bins = reliability(np.array([True, False, True, True]), np.array([0.5, 0.5, 0.99, 0.97]))
    lines = format_reliability(bins).splitlines()
    assert len(lines) == 5
    assert lines[-1] == "calibration error 0.0100; by chance, with as many decisions: 0.1442"
    first, second = lines[1:3]
    assert first.split()[:4] == ["0.467-0.533", "2", "0.500", "0.500"]
    assert first.endswith("#" * 20 + "|")  # accuracy .5 of 40 columns, and the mean at the same column
    assert second.split()[:4] == ["0.933-1.000", "2", "0.980", "1.000"]
    assert second.endswith("#" * 39 + "|")
    assert lines[0].index("0.5") - lines[0].rindex("0", 0, lines[0].index("0.5")) == 20


def test_labels_that_do_not_exclude_each_other_are_decisions_each() -> None:
    task = MultiLabel(LabelSet(("a", "b"), "multi"))
    logits = np.log(np.array([[0.8, 0.2], [0.8, 0.6]]) / (1 - np.array([[0.8, 0.2], [0.8, 0.6]])))
    metrics = task.evaluate(list(logits), np.array([[1, 0], [1, 1]]))
    assert isinstance(metrics, MultiLabelMetrics)
    assert metrics.calibration_error == pytest.approx((2 * 0.2 + 0.2 + 0.4) / 4)
    assert sum(item.count for item in metrics.reliability if item) == 4


def test_words_of_a_tagger_that_were_not_read_have_no_probability() -> None:
    task = Tagging(LabelSet(("O", "B-x", "I-x"), "iob"))
    logits = np.log(np.array([[0.5, 0.3, 0.2], [0.1, 0.9, 1e-9]]))
    metrics = task.evaluate([logits], [np.array([0, 0, 1])])
    assert isinstance(metrics, TaggingMetrics)
    assert metrics.n_words == 3
    assert metrics.word_accuracy == pytest.approx(1 / 3)
    assert metrics.calibration_error == pytest.approx((0.5 + 0.9) / 2)
    values = metrics.to_dict()["reliability"]
    assert [item["count"] for item in values if item] == [1, 1]
