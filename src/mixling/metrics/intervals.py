"""Confidence intervals of scores. R is the number of rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mixling.metrics.base import Score

_Floats = npt.NDArray[np.float64]

RESAMPLES = 2_000
_Z = 1.959963984540054  # 95% of the normal distribution are between -z and z


@dataclass(frozen=True)
class Interval:
    """A 95% confidence interval."""

    low: float
    high: float


def rate_interval(hits: _Floats) -> Interval:
    """Return the interval of the mean of hits (R,): Wilson's if each is 0 or 1, else by resampling rows."""
    return wilson(float(hits.mean()), len(hits)) if np.isin(hits, (0, 1)).all() else resampled(hits)


def wilson(rate: float, count: int) -> Interval:
    """Return Wilson's score interval of a rate among `count` independent answers."""
    shrink = 1 + _Z**2 / count
    center = (rate + _Z**2 / (2 * count)) / shrink
    reach = _Z * math.sqrt(rate * (1 - rate) / count + _Z**2 / (4 * count**2)) / shrink
    return Interval(max(0.0, center - reach), min(1.0, center + reach))


def resampled(values: _Floats) -> Interval:
    """Return the percentile bootstrap interval of the mean of values (R,).

    For the differences between two models on the same rows it is a paired interval.
    """
    return percentiles(bootstrap(lambda rows: float(values[rows].mean()), len(values)))


def bootstrap(value: Callable[[npt.NDArray[np.int64]], float], count: int, times: int = RESAMPLES) -> _Floats:
    """Return a value (`times`,) of as many resamples of rows, which depend only on the number of rows.

    So the differences between the values of two models are paired.

    Args:
        value: of the rows with these indices; a sentence is a row, since its words are not independent.
    """
    chance = np.random.default_rng(0)
    return np.array([value(chance.integers(count, size=count)) for _ in range(times)])


def percentiles(values: _Floats) -> Interval:
    """Return the interval that 95% of the defined values are in; without any, it is undefined, too."""
    known = values[~np.isnan(values)]
    low, high = np.percentile(known, [2.5, 97.5]) if len(known) else (math.nan, math.nan)
    return Interval(float(low), float(high))


def resampled_means(scores: Sequence[Score], metric: str) -> npt.NDArray[np.float64]:
    """Return the mean of a metric over the seeds, in resamples of the rows; NaN where it is undefined."""

    def mean(rows: npt.NDArray[np.int64]) -> float:
        return float(np.mean([one.sample(rows)[metric] for one in scores]))

    return bootstrap(mean, scores[0].rows)


def interval_of(
    scores: Sequence[Score], headline: str, metric: str, values: npt.NDArray[np.float64] | None = None
) -> Interval:
    """Return the interval of a metric, the mean over the seeds: Wilson's if it is the rate of right answers.

    Args:
        headline: the name of the task's rate of right answers.
        values: `resampled_means`, if they are known.
    """
    rates = [one.hits for one in scores if one.hits is not None]
    if len(rates) == len(scores) and metric == headline:
        return rate_interval(np.mean(rates, axis=0))
    return percentiles(resampled_means(scores, metric) if values is None else values)
