"""Texts that no label fits: metrics by loops over pairs, and the threshold of abstaining by trying all."""

from __future__ import annotations

import numpy as np
import pytest

from mixling.metrics import choose_rejection, out_of_scope_report


def certainties(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    inside, outside = np.round(rng.beta(4, 1, 80), 2), np.round(rng.beta(2, 2, 30), 2)  # with ties
    return rng.random(80) < inside, inside, outside


@pytest.mark.parametrize("seed", range(3))
def test_metrics_are_those_of_all_pairs(seed: int) -> None:
    _, inside, outside = certainties(seed)
    found = out_of_scope_report(inside, outside, threshold=0.7)
    wins = [(a > b) + 0.5 * (a == b) for a in inside for b in outside]
    assert found.auroc == pytest.approx(np.mean(wins))
    assert found.false_accept_rate == pytest.approx(sum(value >= 0.7 for value in outside) / 30)
    enough = [value for value in np.unique(inside) if (inside >= value).mean() >= 0.95]
    assert found.false_accept_rate_at_95 == pytest.approx((outside >= max(enough)).mean())
    assert "false-accept rate 0." in found.summary()
    assert out_of_scope_report(inside, outside, threshold=None).false_accept_rate is None


@pytest.mark.parametrize("seed", range(3))
def test_the_threshold_is_the_best_of_all(seed: int) -> None:
    right, inside, outside = certainties(seed)

    def value(threshold: float) -> float:
        return float((right & (inside >= threshold)).mean() + (outside < threshold).mean())

    threshold = choose_rejection(right, inside, outside)
    assert value(threshold) == pytest.approx(max(map(value, np.unique(np.concatenate([inside, outside])))))
    assert not (np.abs(np.concatenate([inside, outside]) - threshold) < 1e-3).any()
