"""Conformal sets: the definitions as loops, and their coverage over random splits."""

from __future__ import annotations

import json
import math
from statistics import NormalDist
from typing import Any

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin

from mixling.answers import LabelSet, Method, conformal_scores, fit_conformal
from mixling.answers.conformal import ConformalSets, min_examples
from mixling.tasks import Classification
from mixling.text import Encoded

METHODS: tuple[Method, ...] = ("lac", "aps")

# SplitConformalClassifier of MAPIE 1.6.0, as in `test_sets_are_mapies` with the seeds 0 and 100 and coverage 0.9.
LAC, APS = 0.819373023427262, 0.7938870694929903
LAC_SETS: list[list[int]] = [[2, 3], [0, 4], [0], [0, 3], [4], [1], [2, 3, 4], [0]]
APS_SETS: list[list[int]] = [[2, 3], [0, 3, 4], [0], [0, 3], [4], [1], [2, 3, 4], [0]]


def drawn(number: int, labels: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities (B, C) that are wrong about themselves, and labels: the most probable one is right in 70%."""
    rng = np.random.default_rng(seed)
    logits = rng.normal(size=(number, labels)) * 2
    truth = np.array([rng.choice(labels, p=np.exp(row) / np.exp(row).sum()) for row in logits])
    sharp = np.exp(1.7 * logits)
    return sharp / sharp.sum(1, keepdims=True), truth


def score(row: np.ndarray, label: int, method: str) -> float:
    if method == "lac":
        return float(1 - row[label])
    return float(sum(p for other, p in enumerate(row) if p > row[label] and other != label))


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("coverage", [0.6, 0.9, 0.95])
def test_sets_are_those_of_the_definition(method: Method, coverage: float) -> None:
    probabilities, truth = drawn(60, 5, 0)
    scores = [[score(row, label, method) for label in range(5)] for row in probabilities]
    np.testing.assert_allclose(conformal_scores(probabilities, method), scores, atol=1e-12)
    right = sorted(scores[i][label] for i, label in enumerate(truth))
    sets = fit_conformal(probabilities, truth, method=method, coverage=coverage)
    assert sets.quantile == pytest.approx(right[math.ceil(61 * coverage) - 1])
    fresh, _ = drawn(30, 5, 1)
    expected = [[score(row, label, method) <= sets.quantile for label in range(5)] for row in fresh]
    assert sets.members(fresh).tolist() == expected
    if method == "aps":
        assert sets.members(fresh)[np.arange(30), fresh.argmax(1)].all()


class Given(ClassifierMixin, BaseEstimator):
    """A classifier whose texts are their own probabilities."""

    def __init__(self, labels: int = 5) -> None:
        self.labels = labels
        self.classes_ = np.arange(labels)

    def fit(self, x: np.ndarray, y: np.ndarray) -> Given:
        return self

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def predict_proba(self, x: np.ndarray) -> np.ndarray:
        return x

    def predict(self, x: np.ndarray) -> np.ndarray:
        return x.argmax(1)


class Ones(np.random.RandomState):
    """Draws 1 where APS draws a uniform number; its score is then the sum of the more probable labels."""

    def uniform(self, low: float = 0.0, high: float = 1.0, size: Any = None) -> np.ndarray:
        return np.ones(size)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("coverage", [0.6, 0.9, 0.95])
def test_sets_are_mapies(method: Method, coverage: float) -> None:
    mapie = pytest.importorskip("mapie.classification", reason="MAPIE is not installed")
    for seed in range(5):
        probabilities, truth = drawn(60, 5, seed)
        sets = fit_conformal(probabilities, truth, method=method, coverage=coverage)
        oracle = mapie.SplitConformalClassifier(
            Given(), confidence_level=coverage, conformity_score=method, prefit=True, random_state=Ones()
        )
        oracle.conformalize(probabilities, truth)
        fresh, _ = drawn(200, 5, 100 + seed)
        _, members = oracle.predict_set(fresh)
        assert sets.members(fresh).tolist() == members[:, :, 0].tolist()


@pytest.mark.parametrize(("method", "quantile", "labels"), [("lac", LAC, LAC_SETS), ("aps", APS, APS_SETS)])
def test_sets_are_those_that_mapie_made_once(method: Method, quantile: float, labels: list[list[int]]) -> None:
    probabilities, truth = drawn(60, 5, 0)
    sets = fit_conformal(probabilities, truth, method=method, coverage=0.9)
    assert sets.quantile == pytest.approx(quantile, abs=1e-9)
    fresh, _ = drawn(8, 5, 100)
    assert [np.flatnonzero(row).tolist() for row in sets.members(fresh)] == labels


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("coverage", [0.8, 0.95])
def test_coverage_is_within_its_band_over_random_splits(method: Method, coverage: float) -> None:
    probabilities, truth = drawn(1000, 6, 2)
    assert (probabilities.argmax(1) == truth).mean() < coverage
    rng, found = np.random.default_rng(0), []
    for _ in range(100):
        order = rng.permutation(1000)
        fitted, rest = order[:500], order[500:]
        sets = fit_conformal(probabilities[fitted], truth[fitted], method=method, coverage=coverage)
        found.append(sets.members(probabilities[rest])[np.arange(500), truth[rest]].mean())
    half = NormalDist().inv_cdf(0.995) * math.sqrt(coverage * (1 - coverage) / 500)
    assert coverage - half <= np.mean(found) <= coverage + half + 1 / 501


def test_the_fewest_examples() -> None:
    for coverage in (0.5, 0.9, 0.95, 0.99):
        fewest = min_examples(coverage)
        probabilities, truth = drawn(fewest, 3, 0)
        fit_conformal(probabilities, truth, method="lac", coverage=coverage)
        with pytest.raises(AssertionError, match="too few"):
            fit_conformal(probabilities[1:], truth[1:], method="lac", coverage=coverage)
    assert [min_examples(coverage) for coverage in (0.5, 0.9, 0.95, 0.99)] == [1, 9, 19, 99]


def test_a_label_that_the_model_does_not_know_is_in_no_set() -> None:
    probabilities, truth = drawn(40, 3, 0)
    truth[:10] = 3
    sets = fit_conformal(probabilities, truth, method="lac", coverage=0.9)
    assert sets.quantile == 1  # only sets of all labels can be right often enough


def test_predictions_have_their_sets() -> None:
    task = Classification(LabelSet(("a", "b", "ü"), "single"))
    logits = np.log([[0.9, 0.06, 0.04], [0.2, 0.3, 0.5], [0.34, 0.33, 0.33]])
    read = [Encoded(np.zeros(1, np.int32), None, False, 0)] * 3
    assert task.decode(logits[0], read[0], "").label_set is None
    task.conformal = ConformalSets(method="lac", coverage=0.9, quantile=0.75)
    expected = [("a",), ("ü", "b"), ("a", "b", "ü")]
    found = task.decode_many(list(logits), read, ["", "", ""])
    assert [item.label_set for item in found] == expected
    assert task.decode(logits[1], read[1], "").label_set == expected[1]
    lines = task.json_lines(logits, read)
    for line, item in zip(lines, found, strict=True):
        rounded = item.to_dict()
        rounded["probabilities"] = {name: round(value, 6) for name, value in rounded["probabilities"].items()}
        assert json.loads(line) == rounded
    assert list(json.loads(lines[1])) == list(found[1].to_dict())
    assert task.lines(found[1])[-1] == "  set: ü, b"
    metrics = task.with_unknown(["c"]).evaluate(list(logits), np.array([0, 0, 3]))
    assert metrics.numbers()["set_coverage"] == pytest.approx(1 / 3)
    assert metrics.numbers()["set_size"] == pytest.approx(2)
    assert metrics.summary().endswith("; conformal sets of 2.00 labels cover 33.3%")
