"""The closed form of the expected validation performance against draws, and its simplest values."""

from __future__ import annotations

import numpy as np
import pytest

from mixling.tuning import expected_best

TRIALS = (1, 2, 5, 10, 40)


@pytest.mark.parametrize("less_is_better", [False, True])
def test_it_is_the_mean_of_the_best_of_n_draws(less_is_better: bool) -> None:
    chance = np.random.default_rng(0)
    values = 0.95 + 0.02 * chance.standard_normal(40)
    pick = np.min if less_is_better else np.max
    found = expected_best(values.tolist(), TRIALS, less_is_better=less_is_better)
    for number, mean, deviation in zip(TRIALS, *found, strict=True):
        best = pick(chance.choice(values, (10_000, number)), axis=1)
        assert mean == pytest.approx(best.mean(), abs=1e-3)
        assert deviation == pytest.approx(best.std(), abs=1e-3)


def test_one_trial_has_the_mean_and_many_have_the_best() -> None:
    values = [0.5, 0.9, 0.7, 0.7]
    mean, deviation = expected_best(values, [1, 10_000])
    assert mean == pytest.approx([np.mean(values), 0.9])
    assert deviation == pytest.approx([np.std(values), 0.0], abs=1e-6)
    assert expected_best([0.3], [1, 7]).mean == pytest.approx([0.3, 0.3])
