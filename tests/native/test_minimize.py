"""The smallest values of functions, against scipy's."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize as scipys
from scipy.optimize import rosen, rosen_der

from mixling.native import _counts
from mixling.native.minimize import dot, minimize


@pytest.mark.parametrize("number", [2, 10, 100])
def test_a_curved_valley(number: int) -> None:
    calls = []

    def objective(values: np.ndarray) -> tuple[float, np.ndarray]:
        calls.append(values)
        return float(rosen(values)), rosen_der(values)

    start = np.linspace(-1.5, 1.5, number)
    np.testing.assert_allclose(minimize(objective, start), np.ones(number), atol=1e-4)
    ours = len(calls)
    calls.clear()
    scipys(objective, start, jac=True, method="L-BFGS-B")
    assert ours < 1.5 * len(calls)


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_quadratics_of_very_different_curvatures(kind: type) -> None:
    curvatures = np.logspace(-2, 3, 30).astype(kind)
    wanted = np.linspace(-3, 4, 30).astype(kind)

    def objective(values: np.ndarray) -> tuple[float, np.ndarray]:
        away = values - wanted
        return float(curvatures @ np.square(away)) / 2, curvatures * away

    found = minimize(objective, np.zeros(30, kind), gradient=1e-4, decrease=0)
    assert found.dtype == kind
    np.testing.assert_allclose(found, wanted, atol=2e-2)


def test_it_ends_where_nothing_can_get_smaller() -> None:
    start = np.array([1.0, 2.0])
    np.testing.assert_array_equal(minimize(lambda values: (3.0, np.zeros(2)), start), start)
    np.testing.assert_array_equal(minimize(lambda values: (3.0, np.ones(2)), start), start)  # a gradient that is wrong
    found = minimize(lambda values: (float(np.abs(values).sum()), np.sign(values)), start)
    assert np.abs(found).sum() < 1e-3
    assert minimize(lambda values: (0.0, values), np.zeros(0)).size == 0
    found = minimize(lambda values: (np.nan if values[0] > 5 else -values[0], -np.ones(1)), np.zeros(1), steps=20)
    assert found[0] > 4


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("size", [0, 1, 7, 8, 9, 1003])
def test_sums_of_products(kind: type, size: int) -> None:
    generator = np.random.default_rng(size)
    out, other, along = generator.normal(size=(3, size)).astype(kind)
    assert dot(out, other) == pytest.approx(out.astype(np.float64) @ other, rel=1e-12, abs=1e-12)
    wanted = out + kind(0.3) * other
    product = _counts.add_dot(out, other, along, 0.3)
    np.testing.assert_allclose(out, wanted, rtol=1e-6, atol=1e-6)
    assert product == pytest.approx(out.astype(np.float64) @ along, rel=1e-12, abs=1e-12)


def test_vectors_that_do_not_fit_are_refused() -> None:
    out = np.zeros(3)
    for other in (np.zeros(2), np.zeros(3, np.float32), np.zeros((3, 2))[:, 0], "abc"):
        with pytest.raises((ValueError, TypeError, BufferError)):
            _counts.add_dot(out, other, out, 1.0)
        with pytest.raises((ValueError, TypeError, BufferError)):
            _counts.dot(other, out)
    out.flags.writeable = False
    with pytest.raises((ValueError, BufferError)):
        _counts.add_dot(out, out, out, 1.0)
