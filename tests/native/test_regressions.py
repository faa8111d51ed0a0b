"""Logistic and ridge regression, against scikit-learn's."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_array, random_array
from sklearn.linear_model import LogisticRegression, Ridge

from mixling.native.regressions import fit_logistic, fit_ridge
from mixling.threads import limited_threads

from ..matrices import ours


@pytest.fixture
def features() -> csr_array:
    return random_array((120, 40), density=0.2, format="csr", dtype=np.float32, rng=np.random.default_rng(0))


@pytest.mark.parametrize("number", [2, 5])
@pytest.mark.parametrize("strength", [0.3, 10.0])
@pytest.mark.parametrize("weighted", [False, True])
def test_logistic_regression(features: csr_array, number: int, strength: float, weighted: bool) -> None:
    classes = np.arange(120) % number
    weights = np.random.default_rng(1).random(120) + 0.1 if weighted else None
    model = LogisticRegression(C=strength, tol=1e-8, max_iter=10_000).fit(features, classes, sample_weight=weights)
    for given in (ours(features), features.toarray()):
        slopes, bias = fit_logistic(given, classes, number, strength, weights)
        expected = model.intercept_ - (model.intercept_.mean() if number > 2 else 0)  # any constant may be added
        np.testing.assert_allclose(slopes, model.coef_, atol=1e-2 * np.abs(model.coef_).max())
        found = bias - (bias.mean() if number > 2 else 0)
        np.testing.assert_allclose(found, expected, atol=1e-2 * np.abs(model.coef_).max())


@pytest.mark.parametrize("weighted", [False, True])
def test_few_texts_with_many_terms_have_the_regression_of_the_terms(weighted: bool) -> None:
    matrix = random_array((60, 900), density=0.1, dtype=np.float32, rng=np.random.default_rng(0)).toarray()
    matrix[7] = matrix[3]  # equal texts of different classes
    matrix[8] = 0
    classes = np.arange(60) % 5
    weights = np.random.default_rng(1).random(60) if weighted else None
    features = ours(csr_array(matrix))
    for strength in (0.3, 30.0):
        slopes, bias = fit_logistic(features, classes, 5, strength, weights)
        expected, expected_bias = fit_logistic(matrix, classes, 5, strength, weights)
        np.testing.assert_allclose(slopes, expected, atol=2e-3 * np.abs(expected).max())
        np.testing.assert_allclose(bias, expected_bias, rtol=5e-3)  # the minimum is flat there
    assert features._factor is not None


@pytest.mark.parametrize("weighted", [False, True])
def test_ridge_regression(features: csr_array, weighted: bool) -> None:
    rng = np.random.default_rng(2)
    numbers = 50 + 3 * rng.normal(size=120)
    weights = rng.random(120) if weighted else None
    model = Ridge(alpha=1 / 3).fit(features.toarray().astype(float), numbers, sample_weight=weights)
    for given in (ours(features), features.toarray()):
        slopes, bias = fit_ridge(given, numbers, 3.0, weights)
        np.testing.assert_allclose(slopes, model.coef_, atol=1e-3)
        assert bias == pytest.approx(model.intercept_, abs=1e-3)


def test_equal_numbers_and_one_class_have_no_weights(features: csr_array) -> None:
    slopes, bias = fit_ridge(ours(features), np.full(120, 7.0), 1.0)
    assert np.abs(slopes).max() < 1e-6
    assert bias == pytest.approx(7)
    slopes, _ = fit_logistic(ours(features), np.zeros(120, int), 1, 1.0)
    assert not slopes.any()


def test_the_bytes_do_not_depend_on_the_number_of_threads() -> None:
    matrix = random_array((3000, 4000), density=0.02, format="csr", dtype=np.float32, rng=np.random.default_rng(0))
    found = set()
    for number in (1, 2, 3):
        with limited_threads(number):
            slopes, bias = fit_logistic(ours(matrix), np.arange(3000) % 30, 30, 0.1)
            found.add(slopes.tobytes() + bias.tobytes())
    assert len(found) == 1
