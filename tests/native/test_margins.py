"""Linear support vector machines against scikit-learn's LIBLINEAR, and what the native module refuses."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array, random_array

from mixling.native import margins
from mixling.native.margins import MAX_PASSES, fit_margins


@pytest.fixture
def features() -> csr_array:
    drawn = random_array((60, 25), density=0.2, format="csr", dtype=np.float32, rng=np.random.default_rng(0))
    drawn.indices, drawn.indptr = drawn.indices.astype(np.int32), drawn.indptr.astype(np.int32)
    return drawn


def marks_of(features: csr_array) -> np.ndarray:
    """Labels that are nearly linear in the features: two of them, with noise."""
    rng = np.random.default_rng(1)
    return (features @ rng.normal(size=(25, 2)) + 0.3 * rng.normal(size=(60, 2)) > 0).T


def by_scikit_learn(features: Any, marks: np.ndarray, costs: np.ndarray) -> np.ndarray:
    from sklearn.svm import LinearSVC

    model = LinearSVC(tol=1e-8, max_iter=100_000, random_state=0, dual=True).fit(features, marks, sample_weight=costs)
    return np.append(model.coef_[0], model.intercept_)


@pytest.fixture(params=["native", "scikit-learn"])
def each_solver(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "native":
        pytest.importorskip("mixling.native._margins")
    else:
        monkeypatch.setitem(sys.modules, "mixling.native._margins", None)


@pytest.mark.parametrize("strength", [0.1, 1.0, 30.0])
def test_the_optimum_is_that_of_liblinear(features: csr_array, strength: float) -> None:
    pytest.importorskip("mixling.native._margins")
    marks, weights = marks_of(features), np.random.default_rng(2).random((2, 60))
    weights[0, :7] = 0
    slopes, biases = fit_margins(features, marks, weights, strength, tolerance=1e-5, passes=1000)
    again, _ = fit_margins(features, marks, weights, strength, tolerance=1e-5, passes=1000, threads=2)
    np.testing.assert_array_equal(again, slopes)
    for label in range(2):
        expected = by_scikit_learn(features, marks[label], strength * weights[label])
        np.testing.assert_allclose(np.append(slopes[label], biases[label]), expected, atol=2e-5)


@pytest.mark.usefixtures("each_solver")
@pytest.mark.parametrize("each", [True, False])
def test_log_count_ratios_are_those_of_loops(features: csr_array, each: bool) -> None:
    """Wang and Manning (2012), with counts of texts by their weights, and one more text with and without a feature."""
    marks, weights = marks_of(features), np.random.default_rng(2).random((2, 60))
    weights[0, :7] = 0
    if not each:
        weights[1] = weights[0]
    found = margins.log_count_ratios(features, marks, weights if each else weights[0])
    dense = features.toarray()
    for label in range(2):
        total = {has: weights[label][marks[label] == has].sum() for has in (True, False)}
        for column in range(25):
            counts = {True: 0.0, False: 0.0}
            for row in range(60):
                if dense[row, column] > 0:
                    counts[bool(marks[label, row])] += weights[label, row]
            frequency = {has: (counts[has] + 1) / (total[has] + 2) for has in (True, False)}
            assert found[label, column] == pytest.approx(np.log(frequency[True] / frequency[False]), abs=1e-5)


@pytest.mark.usefixtures("each_solver")
def test_with_ratios_it_is_a_fit_of_multiplied_features(features: csr_array) -> None:
    rng = np.random.default_rng(1)
    marks = (features @ rng.normal(size=(25, 5)) + 0.3 * rng.normal(size=(60, 5)) > 0).T
    weights = np.ones((5, 60))
    wanted = {"tolerance": 1e-5, "passes": 1000, "ratio_power": 0.5}
    slopes, biases = fit_margins(features, marks, weights, 2.0, **wanted)
    ratios = np.abs(margins.log_count_ratios(features, marks, weights)) ** 0.5
    for label in range(5):
        multiplied = features.toarray() * ratios[label]
        multiplied *= np.linalg.norm(features.toarray()) / np.linalg.norm(multiplied)
        factor = np.linalg.norm(features.toarray()) / np.linalg.norm(features.toarray() * ratios[label])
        *expected, bias = by_scikit_learn(multiplied, marks[label], 2.0 * weights[label])
        np.testing.assert_allclose(slopes[label], np.array(expected) * ratios[label] * factor, atol=1e-4)
        assert biases[label] == pytest.approx(bias, abs=1e-4)


@pytest.mark.parametrize("ratio_power", [0.0, 0.5])
@pytest.mark.usefixtures("each_solver")
def test_each_label_has_the_features_that_are_kept_for_it(features: csr_array, ratio_power: float) -> None:
    marks, weights = marks_of(features), np.ones(60)
    kept = np.random.default_rng(2).random((len(marks), features.shape[1])) < 0.5
    wanted = {"tolerance": 1e-5, "passes": 1000}
    slopes, biases = fit_margins(features, marks, weights, 1.0, ratio_power=ratio_power, kept=kept, **wanted)
    assert not slopes[~kept].any()
    if ratio_power == 0:
        for label, mark in enumerate(marks):
            alone = csr_array(features.toarray() * kept[label])
            expected, bias = fit_margins(alone, mark[None], weights, 1.0, **wanted)
            np.testing.assert_allclose(slopes[label], expected[0], atol=1e-4)
            assert biases[label] == pytest.approx(bias[0], abs=1e-4)


def test_a_label_of_all_or_no_texts_needs_no_features(features: csr_array) -> None:
    marks = np.array([[True] * 60, [False] * 60])
    slopes, biases = fit_margins(features, marks, np.ones(60), 1.0)
    assert not slopes.any()
    assert biases.tolist() == [1, -1]


@pytest.mark.parametrize("labels", [1, 3, 7, 20])
def test_labels_that_are_fitted_together_do_not_change_each_other(features: csr_array, labels: int) -> None:
    pytest.importorskip("mixling.native._margins")
    rng = np.random.default_rng(3)
    marks = (features @ rng.normal(size=(25, labels)) + 0.3 * rng.normal(size=(60, labels)) > 0).T
    wanted: dict[str, Any] = {"tolerance": 1e-5, "passes": 1000}
    together = np.column_stack(fit_margins(features, marks, np.ones(60), 1.0, **wanted))
    for label in range(labels):
        alone = np.column_stack(fit_margins(features, marks[label : label + 1], np.ones(60), 1.0, **wanted))
        np.testing.assert_allclose(together[label], alone[0], atol=2e-5)


def test_a_fit_continues_where_another_ended(features: csr_array) -> None:
    pytest.importorskip("mixling.native._margins")
    marks, some, duals = marks_of(features), np.ones(60), np.zeros((60, 2), np.float32)
    some[40:] = 0
    fit_margins(features, marks, some, 1.0, tolerance=1e-5, passes=1000, duals=duals)
    assert duals[:40].any()
    assert not duals[40:].any()
    begun = duals.copy()
    # Weights are those of the duals, without a pass.
    weights, _ = fit_margins(features, marks, np.ones(60), 3.0, passes=0, duals=begun)
    np.testing.assert_array_equal(begun, duals)
    np.testing.assert_allclose(weights, (duals * np.where(marks.T, 1, -1)).T @ features, atol=1e-5)
    continued, _ = fit_margins(features, marks, np.ones(60), 3.0, tolerance=1e-5, passes=1000, duals=duals)
    expected, _ = fit_margins(features, marks, np.ones(60), 3.0, tolerance=1e-5, passes=1000)
    np.testing.assert_allclose(continued, expected, atol=2e-5)


def arrays() -> dict[str, Any]:
    return {
        "labels": 1,
        "starts": np.array([0, 1, 3], np.int32),
        "columns": np.array([0, 0, 1], np.int32),
        "values": np.ones(3, np.float32),
        "signs": np.array([1, -1], np.int8),
        "costs": np.ones(2, np.float32),
        "duals": np.zeros(2, np.float32),
        "weights": np.zeros(3, np.float32),
        "scale": np.ones(2, np.float32),
    }


@pytest.mark.parametrize(
    "wrong",
    [
        {"labels": 0},
        {"labels": 2},
        {"labels": 4},
        {"starts": np.array([0, 2, 1], np.int32)},
        {"starts": np.array([0, 1, 4], np.int32)},
        {"starts": np.array([1, 2, 3], np.int32)},
        {"columns": np.array([0, 0, 2], np.int32)},
        {"columns": np.array([0, -1, 1], np.int32)},
        {"values": np.ones(2, np.float32)},
        {"costs": np.ones(3, np.float32)},
        {"duals": np.zeros(1, np.float32)},
        {"signs": np.ones(3, np.int8)},
        {"weights": np.zeros(0, np.float32)},
        {"scale": np.ones(3, np.float32)},
    ],
)
def test_arrays_that_do_not_fit_each_other_are_refused(wrong: dict[str, Any]) -> None:
    native = pytest.importorskip("mixling.native._margins")
    native.fit_margins(*arrays().values(), 0.1, 10)
    native.fit_margins(*(arrays() | {"scale": None}).values(), 0.1, 10)
    with pytest.raises(ValueError, match="no sparse matrix"):
        native.fit_margins(*(arrays() | wrong).values(), 0.1, 10)


@pytest.mark.parametrize(
    "wrong",
    [
        {"numbers": 0},
        {"numbers": -1},
        {"numbers": 3},
        {"starts": np.array([0, 1, 4], np.int32)},
        {"columns": np.array([0, 0, 2], np.int32)},
        {"values": np.ones(2, np.float32)},
        {"of_texts": np.ones(3, np.float32)},
        {"sums": np.zeros(2, np.float32)},
        {"squares": np.zeros(1)},
    ],
)
def test_numbers_that_do_not_fit_the_texts_are_refused(wrong: dict[str, Any]) -> None:
    native = pytest.importorskip("mixling.native._margins")
    matrix = {name: arrays()[name] for name in ("starts", "columns", "values")}
    given: dict[str, Any] = {"numbers": 2, **matrix, "of_texts": np.arange(4, dtype=np.float32)}
    sums, squares = np.zeros(4, np.float32), np.zeros(2)
    native.sum_by_feature(*given.values(), sums, squares)
    assert sums.tolist() == [2, 4, 2, 3]
    assert squares.tolist() == [2, 1]
    with pytest.raises(ValueError, match="no sparse matrix"):
        native.sum_by_feature(*(given | {"sums": sums, "squares": squares} | wrong).values())


@pytest.mark.usefixtures("each_solver")
@pytest.mark.parametrize("passes", [-1, MAX_PASSES + 1, 2**62, 2**70])
def test_passes_without_an_end_are_refused(features: csr_array, passes: int) -> None:
    marks = marks_of(features)
    with pytest.raises(ValueError, match=r"passes: got .*; allowed: 0 to 10,000"):
        fit_margins(features, marks, np.ones(60), 1.0, passes=passes)


@pytest.mark.parametrize("passes", [-1, MAX_PASSES + 1, 2**31 - 1])
def test_the_native_module_refuses_passes_without_an_end(passes: int) -> None:
    native = pytest.importorskip("mixling.native._margins")
    native.fit_margins(*arrays().values(), 0.0, MAX_PASSES)
    with pytest.raises(ValueError, match=r"passes: got .*; allowed: 0 to 10000"):
        native.fit_margins(*arrays().values(), 0.0, passes)
