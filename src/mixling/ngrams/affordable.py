"""How many texts an n-gram branch is fitted on, where time is limited: measured on a few of them first."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mixling.ngrams.data import sample
from mixling.training.plan import Deadline

_PART = 0.05  # of the texts are measured
_FEWEST = 400  # texts; fewer take no time
_MARGIN = 1.25  # fits of more texts take more than in proportion
_FITS = 2.5  # as long as the first of all terms and the first attempt together: these, and two attempts more
_ATTEMPTS = 3  # attempts whose answers to the validation texts are mixed with the network's


@dataclass(frozen=True, slots=True)
class Measured:
    """The seconds that making features of texts, fitting them, and judging a fit have taken."""

    features: float
    fits: float
    judging: float


class Watch:
    """Measures the time between two calls."""

    def __init__(self) -> None:
        self._before = time.monotonic()

    def lap(self) -> float:
        """Return the seconds since the last call."""
        before = self._before
        self._before = time.monotonic()
        return self._before - before


def affordable_texts(
    number: int,
    deadline: Deadline,
    try_some: Callable[[npt.NDArray[np.int64]], Measured],
    *,
    refitted: int | None,
    log: Callable[[str], None],
) -> npt.NDArray[np.int64]:
    """Return the indices of the texts that a branch can be fitted on in time: all, or evenly spaced ones.

    Args:
        try_some: fits a branch on some of the texts.
        refitted: the number of texts that the branch is fitted on beside these in the end; None: it is not.
    """
    everything = np.arange(number)
    if deadline.left is None or number < 2 * _FEWEST:
        return everything
    few = sample(everything, max(int(_PART * number), _FEWEST))
    spent = try_some(few)
    once = (spent.features + spent.fits) * _MARGIN / len(few)
    each = (spent.features + _FITS * spent.fits) * _MARGIN / len(few)
    left = deadline.left - _ATTEMPTS * spent.judging
    if refitted is not None:
        each += once
        left -= once * refitted
    most = int(left / max(each, 1e-9))
    if most >= number:
        return everything
    chosen = sample(everything, max(most, len(few)))
    log(f"n-gram branch: fitted on {len(chosen):,} of {number:,} texts, to end within the time budget")
    return chosen
