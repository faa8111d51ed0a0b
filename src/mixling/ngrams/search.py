"""The choice of the regularization of an n-gram branch: of attempts with strengths and powers, the lowest loss."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mixling.ngrams.mixture import Mixture
from mixling.text.ngram_branch import NgramBranch
from mixling.training.config import NgramConfig

BRANCH_STRENGTHS = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
FEW_STRENGTHS = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0)
FIRST_STRENGTH = 1.0


@dataclass(frozen=True, slots=True)
class Attempt:
    """The logits (V, C) of a branch, or of one for each fold, for examples that it was not fitted on, and their use.

    `columns` (V, C) are the logits that it has for the columns beside the texts, None where there are none.
    """

    strength: float
    ratio_power: float
    branches: Sequence[NgramBranch]
    logits: npt.NDArray[np.float32]
    mixture: Mixture
    columns: npt.NDArray[np.float32] | None = None


def search(
    attempt: Callable[[float, float], Attempt],
    config: NgramConfig,
    ratio_powers: Sequence[float],
    *,
    found: Attempt | None = None,
    more: Callable[[], bool] = lambda: True,
) -> Attempt:
    """Return the attempt, by strength and power, with the lowest loss: first the strength, then greater powers while
    they improve it, each with the strength that is best with it, or a lower one: with a greater power, the features
    that count are larger.

    Args:
        ratio_powers: ascending.
        found: what was best for a part of the texts. The search begins there and tries no greater strength: more texts
            need less.
        more: whether there is time for another attempt.
    """
    start = found and (found.strength, found.ratio_power)
    best = attempt(*(start or (config.strength or FIRST_STRENGTH, config.ratio_power or 0.0)))

    def climbed(start: Attempt, steps: Sequence[int]) -> Attempt:
        if config.strength is not None:
            return start
        return climb(lambda strength: attempt(strength, start.ratio_power), start, steps=steps, more=more)

    best = climbed(best, (-1,) if found else (1, -1))
    for power in ratio_powers:
        if power > best.ratio_power and more():
            other = attempt(best.strength, power)
            if other.mixture.loss >= best.mixture.loss:
                break
            best = climbed(other, (-1,))
    return best


def climb(
    attempt: Callable[[float], Attempt],
    best: Attempt,
    strengths: Sequence[float] = BRANCH_STRENGTHS,
    *,
    steps: Sequence[int] = (1, -1),
    more: Callable[[], bool] = lambda: True,
) -> Attempt:
    """Return the attempt with the lowest loss, from `best` on in the first direction in which the loss decreases.

    Args:
        more: whether there is time for another attempt.
    """
    at = strengths.index(best.strength)
    for step in steps:
        number = at + step
        improved = False
        while 0 <= number < len(strengths) and more():
            other = attempt(strengths[number])
            if other.mixture.loss >= best.mixture.loss:
                break
            best = other
            improved = True
            number = number + step
        if improved:
            break
    return best
