"""Confident learning against cleanlab, and against its definition."""

from __future__ import annotations

import numpy as np
import pytest

from mixling.audit import (
    confident_labels,
    likely_errors,
    likely_mark_errors,
    mark_confidence,
    self_confidence,
    thresholds,
)

# find_label_issues(given, probabilities, filter_by="confident_learning", return_indices_ranked_by="self_confidence") of
# cleanlab 2.9.0 for `case(1, 80, 5)`, the most likely error first.
CLEANLAB = [15, 71, 30, 73, 5, 23, 47, 12, 35, 42, 53, 75, 65, 74, 10, 61, 66, 68]
# find_multilabel_issues_per_class with the same options, for `marks_case(1, 40, 3)`: a list for each label.
CLEANLAB_MARKS = [[30, 32], [21, 12], [6, 39, 24, 18, 2, 20]]


def case(seed: int, examples: int, labels: int) -> tuple[np.ndarray, np.ndarray]:
    """Given labels of which a fifth are drawn anew, and probabilities that know the true ones."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(labels, size=examples)
    given = np.where(rng.random(examples) < 0.2, rng.integers(labels, size=examples), truth)
    logits = rng.normal(size=(examples, labels)) * 1.2
    logits[np.arange(examples), truth] += 2
    probabilities = np.exp(logits)
    return given, probabilities / probabilities.sum(1, keepdims=True)


def ranked(given: np.ndarray, probabilities: np.ndarray) -> list[int]:
    found = np.flatnonzero(likely_errors(given, probabilities))
    order = np.argsort(self_confidence(given, probabilities)[found], kind="stable")
    return [int(index) for index in found[order]]


def test_errors_and_their_ranks_are_cleanlabs() -> None:
    assert ranked(*case(1, 80, 5)) == CLEANLAB


def test_many_cases_against_cleanlab() -> None:
    find = pytest.importorskip("cleanlab.filter", reason="cleanlab is not installed").find_label_issues
    for seed in range(20):
        given, probabilities = case(seed, 150, 6)
        options = {"filter_by": "confident_learning", "return_indices_ranked_by": "self_confidence"}
        assert ranked(given, probabilities) == find(given, probabilities, **options).tolist()


def marks_case(seed: int, examples: int, labels: int) -> tuple[np.ndarray, np.ndarray]:
    """Given labels of which a tenth are wrong, each with a probability that knows the true one."""
    rng = np.random.default_rng(seed)
    truth = rng.random((examples, labels)) < 0.3
    given = truth ^ (rng.random(truth.shape) < 0.1)
    logits = rng.normal(size=truth.shape) * 1.2 + np.where(truth, 2, -2)
    return given.astype(np.int64), 1 / (1 + np.exp(-logits))


def ranked_marks(given: np.ndarray, probabilities: np.ndarray) -> list[list[int]]:
    """The examples with likely errors of each label, the most likely first."""
    errors, confidence = likely_mark_errors(given, probabilities), mark_confidence(given, probabilities)
    out = []
    for column, values in zip(errors.T, confidence.T, strict=True):
        found = np.flatnonzero(column)
        out.append(found[np.argsort(values[found], kind="stable")].tolist())
    return out


def test_errors_of_several_labels_are_cleanlabs() -> None:
    assert ranked_marks(*marks_case(1, 40, 3)) == CLEANLAB_MARKS


def test_many_cases_of_several_labels_against_cleanlab() -> None:
    find = pytest.importorskip(
        "cleanlab.multilabel_classification.filter", reason="cleanlab is not installed"
    ).find_multilabel_issues_per_class
    for seed in range(10):
        given, probabilities = marks_case(seed, 150, 4)
        lists = [np.flatnonzero(row).tolist() for row in given]
        options = {"filter_by": "confident_learning", "return_indices_ranked_by": "self_confidence"}
        issues, _, _ = find(lists, probabilities, **options)
        assert ranked_marks(given, probabilities) == [found.tolist() for found in issues]


def test_by_the_definition() -> None:
    given, probabilities = case(7, 200, 4)
    for label in range(4):
        mean = np.mean([row[label] for row, own in zip(probabilities, given, strict=True) if own == label])
        assert thresholds(given, probabilities)[label] == pytest.approx(mean)
    limits = thresholds(given, probabilities)
    for index, row in enumerate(probabilities):
        reached = [label for label in range(4) if row[label] >= limits[label]]
        if not reached:
            expected = -1
        elif len(reached) == 1:
            expected = reached[0]
        else:
            expected = int(row.argmax())
        assert confident_labels(given, probabilities)[index] == expected


def test_a_label_that_nothing_has_is_never_suggested() -> None:
    given = np.array([0, 0, 1, 1])
    probabilities = np.array([[0.1, 0.1, 0.8], [0.9, 0.1, 0.0], [0.1, 0.9, 0.0], [0.0, 0.8, 0.2]])
    assert confident_labels(given, probabilities).tolist() == [-1, 0, 1, -1]
    assert not likely_errors(given, probabilities).any()


def test_what_the_model_calls_by_its_own_label_is_no_error() -> None:
    # Label 1 is given to texts that the model hardly finds it in, so .4 is confident for it; yet 0 is more probable.
    given = np.array([0, 0, 1, 1])
    probabilities = np.array([[0.6, 0.4], [1.0, 0.0], [0.7, 0.3], [0.7, 0.3]])
    assert confident_labels(given, probabilities)[0] == 1
    assert not likely_errors(given, probabilities)[0]


def test_of_several_labels_that_are_reached_the_most_probable_counts() -> None:
    given = np.array([0, 0, 1, 1])
    probabilities = np.array([[0.45, 0.55], [0.3, 0.7], [0.6, 0.4], [0.55, 0.45]])  # thresholds .375 and .425
    assert confident_labels(given, probabilities).tolist() == [1, 1, 0, 0]
