"""Scores and intervals beside scikit-learn, seqeval and SciPy."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from seqeval.metrics import f1_score as span_f1
from sklearn.metrics import accuracy_score, balanced_accuracy_score, f1_score, matthews_corrcoef

from mixling.answers import LabelSet
from mixling.metrics import bootstrap, percentiles, rate_interval, resampled, wilson
from mixling.tasks import Classification, MultiLabel, Tagging, Task

TAGS = Tagging(LabelSet(("O", "B-x"), "iob"))
LETTERS = Classification(LabelSet(("a", "b", "c"), "single"))


@pytest.mark.parametrize(("right", "count"), [(0, 1), (1, 1), (0, 40), (37, 40), (40, 40), (683, 700), (5000, 10_000)])
def test_wilson_is_scipys(right: int, count: int) -> None:
    expected = stats.binomtest(right, count).proportion_ci(0.95, method="wilson")
    found = wilson(right / count, count)
    np.testing.assert_allclose([found.low, found.high], [expected.low, expected.high], atol=1e-12)
    hits = np.arange(count) < right
    assert rate_interval(hits.astype(float)) == found


def test_resampled_differences_agree_with_scipys_bootstrap() -> None:
    chance = np.random.default_rng(5)
    ahead = chance.choice([-1.0, 0.0, 1.0], size=400, p=[0.05, 0.8, 0.15])
    expected = stats.bootstrap((ahead,), np.mean, n_resamples=4000, method="percentile", rng=chance).confidence_interval
    found = resampled(ahead)
    np.testing.assert_allclose([found.low, found.high], [expected.low, expected.high], atol=0.006)
    assert found == resampled(ahead)


def test_resampling_is_of_rows_not_of_their_words() -> None:
    # Sentences of ten words that are all right or all wrong tell as much as one word each.
    task = Tagging(LabelSet(("O", "B-a"), "iob"))
    targets = [("O",) * 10] * 100
    score = task.score(targets, [("O" if row < 50 else "B-a",) * 10 for row in range(100)])
    found = percentiles(bootstrap(lambda rows: score.sample(rows)["word_accuracy"], score.rows))
    alone = wilson(0.5, 100)
    np.testing.assert_allclose([found.low, found.high], [alone.low, alone.high], atol=0.01)


@pytest.mark.parametrize(("key", "average"), [("macro_f1", "macro"), ("label_f1", None)])
def test_intervals_of_other_metrics_are_scipys(key: str, average: str | None) -> None:
    chance = np.random.default_rng(3)
    targets = chance.choice(["a", "b", "c"], size=150, p=[0.7, 0.2, 0.1])
    answers = np.where(chance.random(150) < 0.7, targets, chance.choice(["a", "b", "c"], size=150))
    task = Classification(LabelSet(("a", "b", "c"), "single"))
    task.aim_at("f1:b")

    def expected(truth: np.ndarray, given: np.ndarray) -> float:
        scores = f1_score(truth, given, average=average, labels=["a", "b", "c"], zero_division=0.0)
        return float(scores if average else scores[1])

    score = task.score(targets.tolist(), answers.tolist())
    assert score.numbers[key] == pytest.approx(expected(targets, answers))
    interval = stats.bootstrap(
        (targets, answers), expected, paired=True, vectorized=False, n_resamples=500, method="percentile", rng=chance
    ).confidence_interval
    found = percentiles(bootstrap(lambda rows: score.sample(rows)[key], score.rows))
    np.testing.assert_allclose([found.low, found.high], [interval.low, interval.high], atol=0.03)


def test_an_undefined_metric_has_an_undefined_interval() -> None:
    found = percentiles(np.full(3, np.nan))
    assert np.isnan([found.low, found.high]).all()


def test_equal_models_differ_by_nothing() -> None:
    found = resampled(np.zeros(30))
    assert (found.low, found.high) == (0, 0)


def test_classes_are_scored_as_scikit_learn_does() -> None:
    chance = np.random.default_rng(0)
    targets, answers = (chance.choice(["a", "b", "c"], size=60).tolist() for _ in range(2))
    found = LETTERS.score(targets, answers)
    expected = {
        "accuracy": accuracy_score(targets, answers),
        "macro_f1": f1_score(targets, answers, average="macro"),
        "balanced_accuracy": balanced_accuracy_score(targets, answers),
        "matthews": matthews_corrcoef(targets, answers),
    }
    assert found.numbers == pytest.approx(expected)
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
    assert found.numbers["sentence_accuracy"] == 0.5
    assert [found.sample(np.array([row]))["word_accuracy"] for row in (0, 1)] == [2 / 3, 1]
    assert found.numbers["word_accuracy"] == 0.75
    assert found.numbers["span_f1"] == span_f1([list(row) for row in targets], [list(row) for row in answers])


@pytest.mark.parametrize(
    ("task", "targets", "answers"),
    [
        (LETTERS, ["a", "new"], ["a", "b"]),
        (MultiLabel(LabelSet(("a", "b"), "multi")), [("a",), ("a", "new")], [("a",), ("a",)]),
        (TAGS, [("O",), ("B-new",)], [("O",), ("O",)]),
    ],
)
def test_a_label_that_training_does_not_know_is_an_error(task: Task, targets: list, answers: list) -> None:
    found = task.score(targets, answers)
    key = "word_accuracy" if task is TAGS else type(task).headline
    right = [found.sample(np.array([row]))[key] for row in (0, 1)]
    assert right == [1, 0]
