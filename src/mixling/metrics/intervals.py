"""Confidence intervals of scores. R is the number of rows."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

_Floats = npt.NDArray[np.float64]

RESAMPLES = 2_000
_Z = 1.959963984540054  # 95% of the normal distribution are between -z and z


@dataclass(frozen=True)
class Interval:
    """A 95% confidence interval."""

    low: float
    high: float


def rate_interval(hits: _Floats, sizes: _Floats) -> Interval:
    """Return the interval of sum(hits) / sum(sizes): Wilson's if each row is one right or wrong answer, else by
    resampling rows.

    The words of a sentence are not independent; an interval that treats them so is too narrow.
    """
    if (sizes == 1).all() and np.isin(hits, (0, 1)).all():
        return wilson(float(hits.mean()), len(hits))
    return resampled(hits, sizes)


def wilson(rate: float, count: int) -> Interval:
    """Return Wilson's score interval of a rate among `count` independent answers."""
    shrink = 1 + _Z**2 / count
    center = (rate + _Z**2 / (2 * count)) / shrink
    reach = _Z * math.sqrt(rate * (1 - rate) / count + _Z**2 / (4 * count**2)) / shrink
    return Interval(max(0.0, center - reach), min(1.0, center + reach))


def resampled(values: _Floats, sizes: _Floats) -> Interval:
    """Return the percentile bootstrap interval of sum(values) / sum(sizes) over rows.

    For the differences between two models on the same rows it is a paired interval. The resamples depend only on R.
    """
    chance = np.random.default_rng(0)
    ratios = np.empty(RESAMPLES)
    for i in range(RESAMPLES):
        rows = chance.integers(len(values), size=len(values))
        ratios[i] = values[rows].sum() / sizes[rows].sum()
    low, high = np.percentile(ratios, [2.5, 97.5])
    return Interval(float(low), float(high))
