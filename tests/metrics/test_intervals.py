"""Scores and intervals beside scikit-learn, seqeval and SciPy."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from seqeval.metrics import f1_score as span_f1
from sklearn.metrics import accuracy_score, f1_score

from mixling.answers import LabelSet
from mixling.metrics import rate_interval, resampled, wilson
from mixling.tasks import Classification, MultiLabel, Tagging, Task

LETTERS = Classification(LabelSet(("a", "b", "c"), "single"))


@pytest.mark.parametrize(("right", "count"), [(0, 1), (1, 1), (0, 40), (37, 40), (40, 40), (683, 700), (5000, 10_000)])
def test_wilson_is_scipys(right: int, count: int) -> None:
    expected = stats.binomtest(right, count).proportion_ci(0.95, method="wilson")
    found = wilson(right / count, count)
    np.testing.assert_allclose([found.low, found.high], [expected.low, expected.high], atol=1e-12)
    hits = np.arange(count) < right
    assert rate_interval(hits.astype(float), np.ones(count)) == found


def test_resampled_differences_agree_with_scipys_bootstrap() -> None:
    chance = np.random.default_rng(5)
    ahead = chance.choice([-1.0, 0.0, 1.0], size=400, p=[0.05, 0.8, 0.15])
    expected = stats.bootstrap((ahead,), np.mean, n_resamples=4000, method="percentile", rng=chance).confidence_interval
    found = resampled(ahead, np.ones(400))
    np.testing.assert_allclose([found.low, found.high], [expected.low, expected.high], atol=0.006)
    assert found == resampled(ahead, np.ones(400))


def test_resampling_is_of_rows_not_of_their_words() -> None:
    # Sentences of ten words that are all right or all wrong tell as much as one word each.
    hits = np.repeat([10.0, 0.0], 50)
    found = rate_interval(hits, np.full(100, 10.0))
    alone = wilson(0.5, 100)
    np.testing.assert_allclose([found.low, found.high], [alone.low, alone.high], atol=0.01)


def test_equal_models_differ_by_nothing() -> None:
    found = resampled(np.zeros(30), np.ones(30))
    assert (found.low, found.high) == (0, 0)


def test_classes_are_scored_as_scikit_learn_does() -> None:
    chance = np.random.default_rng(0)
    targets, answers = (chance.choice(["a", "b", "c"], size=60).tolist() for _ in range(2))
    found = LETTERS.score(targets, answers)
    assert found.numbers == pytest.approx(
        {"accuracy": accuracy_score(targets, answers), "macro_f1": f1_score(targets, answers, average="macro")}
    )
    assert found.hits.tolist() == [float(a == b) for a, b in zip(targets, answers, strict=True)]


def test_sets_of_labels_are_right_as_a_whole() -> None:
    task = MultiLabel(LabelSet(("a", "b", "c"), "multi"))
    found = task.score([("a", "b"), (), ("c",), ("a",)], [("b", "a"), (), ("c", "a"), ()])
    assert found.hits.tolist() == [1, 1, 0, 0]
    assert found.numbers["subset_accuracy"] == 0.5
    assert found.numbers["micro_f1"] == pytest.approx(2 * 3 / (4 + 4))


def test_tags_are_scored_by_words_and_by_spans() -> None:
    task = Tagging(LabelSet(("O", "B-x", "I-x"), "iob"))
    targets, answers = [("B-x", "I-x", "O"), ("O",)], [("B-x", "O", "O"), ("O",)]
    found = task.score(targets, answers)
    assert (found.hits.tolist(), found.sizes.tolist()) == ([2, 1], [3, 1])
    assert found.numbers["word_accuracy"] == 0.75
    assert found.numbers["span_f1"] == span_f1([list(row) for row in targets], [list(row) for row in answers])


@pytest.mark.parametrize(
    ("task", "targets", "answers"),
    [
        (LETTERS, ["a", "new"], ["a", "b"]),
        (MultiLabel(LabelSet(("a", "b"), "multi")), [("a",), ("a", "new")], [("a",), ("a",)]),
        (Tagging(LabelSet(("O", "B-x"), "iob")), [("O",), ("B-new",)], [("O",), ("O",)]),
    ],
)
def test_a_label_that_training_does_not_know_is_an_error(task: Task, targets: list, answers: list) -> None:
    found = task.score(targets, answers)
    assert found.hits.tolist() == [1, 0]
