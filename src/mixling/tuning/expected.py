"""Expected validation performance: how good the best of n random trials is on average.

Source: Dodge et al. 2019, "Show Your Work", section 3; HyperMixer, Figure 4, compares models by it. With the N observed
values in ascending order v_1 <= ... <= v_N, the best of n draws with replacement is v_i with the probability
(i / N)^n - ((i - 1) / N)^n. It is defined only if the options of all trials are drawn independently of each other.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

_Floats = npt.NDArray[np.float64]


class Expected(NamedTuple):
    """The mean and the standard deviation of the best value, each with one item per number of trials."""

    mean: _Floats
    deviation: _Floats


def expected_best(values: Sequence[float], trials: Iterable[int], *, less_is_better: bool = False) -> Expected:
    """Return the expected best of n values.

    Args:
        values: (N,) validation metrics of N random trials, at least one.
        trials: the numbers n.
        less_is_better: the best value is the lowest.
    """
    sign = -1.0 if less_is_better else 1.0
    ordered = np.sort(sign * np.asarray(values, np.float64))
    assert len(ordered), "no values"
    below = np.arange(len(ordered) + 1) / len(ordered)
    probabilities = np.diff(below[None, :] ** np.asarray(list(trials), np.float64)[:, None], axis=1)
    mean = probabilities @ ordered
    spread = probabilities @ (ordered - ordered[0]) ** 2 - (mean - ordered[0]) ** 2  # shifted, to cancel less
    return Expected(sign * mean, np.sqrt(np.maximum(spread, 0.0)))
