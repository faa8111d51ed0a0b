"""The search for a branch's regularization, with losses that are known."""

from __future__ import annotations

import math

import numpy as np
import pytest

from mixling.ngrams import mixture as ngram_mixture
from mixling.ngrams import search as ngram_search
from mixling.training import NgramConfig


class Attempts:
    """Attempts whose loss is the distance to the best strength and power; `tried` are their options, in order."""

    def __init__(self, strength: float, power: float) -> None:
        self.best, self.tried = (strength, power), []

    def __call__(self, strength: float, power: float) -> ngram_search.Attempt:
        self.tried.append((strength, power))
        loss = abs(math.log(strength / self.best[0])) + abs(power - self.best[1])
        mixture = ngram_mixture.Mixture(network=1, branch=1, bias=np.zeros(1, np.float32), loss=loss, alone=9)
        return ngram_search.Attempt(strength, power, [], np.zeros((0, 1), np.float32), mixture)


@pytest.mark.parametrize("strength", ngram_search.BRANCH_STRENGTHS)
def test_the_strength_is_climbed_to_where_the_loss_is_lowest(strength: float) -> None:
    attempts = Attempts(strength, 0.0)
    best = ngram_search.climb(lambda one: attempts(one, 0.0), attempts(1.0, 0.0))
    assert best.strength == strength
    assert len(attempts.tried) == len(set(attempts.tried))


@pytest.mark.parametrize(("strength", "power"), [(0.03, 0.5), (1.0, 0.0), (3.0, 0.0), (0.3, 0.5), (10.0, 1.0)])
def test_strength_and_power_with_the_lowest_loss_are_found(strength: float, power: float) -> None:
    attempts = Attempts(strength, power)
    best = ngram_search.search(attempts, NgramConfig(), (0.5, 1.0))
    assert (best.strength, best.ratio_power) == (strength, power)
    assert len(attempts.tried) == len(set(attempts.tried))
    assert sum(tried > power for _, tried in attempts.tried) == (power < 1.0)  # one attempt beyond the best
    assert ngram_search.search(attempts, NgramConfig(), ()).ratio_power == 0.0


def test_what_is_configured_is_not_searched_for() -> None:
    attempts = Attempts(0.03, 0.5)
    assert ngram_search.search(attempts, NgramConfig(strength=3.0), (0.5, 1.0)).ratio_power == 0.5
    assert {strength for strength, _ in attempts.tried} == {3.0}
    assert ngram_search.search(attempts, NgramConfig(ratio_power=1.0), ()).strength == 0.03
    fixed = Attempts(0.03, 0.5)
    ngram_search.search(fixed, NgramConfig(strength=3.0, ratio_power=1.0), ())
    assert fixed.tried == [(3.0, 1.0)]


def test_a_search_goes_on_from_what_was_best_for_a_part_with_no_more_strength() -> None:
    attempts = Attempts(1.0, 1.0)
    best = ngram_search.search(attempts, NgramConfig(), (0.5, 1.0), found=Attempts(1.0, 1.0)(10.0, 0.5))
    assert (best.strength, best.ratio_power) == (1.0, 1.0)
    assert attempts.tried == [(10.0, 0.5), (3.0, 0.5), (1.0, 0.5), (0.3, 0.5), (1.0, 1.0), (0.3, 1.0)]
    stronger = Attempts(30.0, 1.0)
    best = ngram_search.search(stronger, NgramConfig(), (0.5, 1.0), found=Attempts(1.0, 1.0)(10.0, 1.0))
    assert (best.strength, stronger.tried) == (10.0, [(10.0, 1.0), (3.0, 1.0)])
