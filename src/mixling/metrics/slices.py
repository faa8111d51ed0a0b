"""Slices of rows, such as one channel's: whether a score differs from the other rows', by more than chance.

R is the number of rows. All tests are of a slice against the other rows: of rights and wrongs exact (the hypergeometric
distribution, two-sided), of other numbers by the normal distribution. Holm's method (1979) corrects for their number,
so that nothing of a report is called significant by chance, in 19 of 20 files without differences.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from mixling.metrics.intervals import Interval, bootstrap, percentiles, rate_interval

Floats = npt.NDArray[np.float64]
Members = npt.NDArray[np.bool_]

LEVEL = 0.05
MIN_ROWS = 20  # of slices that are searched
WORST = 10  # slices that are kept
MOST_DIMENSIONS = 12  # whose pairs are searched
_RESAMPLES = 500  # of a slice's rows, for the interval of a metric
_DISTINCT = 0.9  # a pair of values has at most this fraction of the rows of either


@dataclass(frozen=True)
class SliceColumn:
    """What rows are sliced by: a column, or a property of the texts.

    Attributes:
        codes: (R,) the place of each row's value in `values`.
        values: in the order in which they are shown.
    """

    name: str
    codes: npt.NDArray[np.int64]
    values: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Slice:
    """The rows with some values.

    Attributes:
        where: the value of each dimension.
        rows: how many there are.
        value: the mean score, or the rate.
        interval: 95% confidence, of this slice by itself.
        rest: the same of all other rows; NaN: there are none.
        chance: the probability of such a difference by chance, corrected for the number of slices.
        label: whose rate it is; "": it is the score.
        expected: the rate of the label among the right ones; None: it is the score, or unknown.
        metric: of these rows, which is no mean over rows, as macro F1; None: none was asked for.
        metric_interval: 95% confidence, from resampled rows.
    """

    where: dict[str, str]
    rows: int
    value: float
    interval: Interval
    rest: float
    chance: float
    label: str = ""
    expected: float | None = None
    metric: float | None = None
    metric_interval: Interval | None = None

    @property
    def significant(self) -> bool:
        return self.chance < LEVEL

    @property
    def name(self) -> str:
        """The values in words."""
        return " and ".join(f"{name} {value}" for name, value in self.where.items())

    def to_dict(self) -> dict[str, Any]:
        """Return JSON values; None where a value is undefined."""
        values = {key: value for key, value in asdict(self).items() if value not in ("", None)}
        rest = None if math.isnan(self.rest) else self.rest
        return {**values, "rest": rest, "significant": self.significant}


def each_value(
    dimension: SliceColumn,
    scores: Floats,
    *,
    label: str = "",
    truth: Floats | None = None,
    metric: Callable[[npt.NDArray[np.int64]], float] | None = None,
) -> list[Slice]:
    """Return the slice of each value of a dimension; chances are not corrected.

    Args:
        scores: (R,) of each row.
        label: whose rate the scores are.
        truth: (R,) the same of the right answers; None: unknown.
        metric: of rows by their numbers; None: none is added.
    """
    found = []
    chance_of = _Chance(scores)
    for code, value in enumerate(dimension.values):
        members = dimension.codes == code
        expected = None if truth is None else float(truth[members].mean())
        one = _slice({dimension.name: value}, members, scores, chance_of(members), label=label, expected=expected)
        if metric is not None:
            rows = np.flatnonzero(members)
            one = replace(one, metric=metric(rows), metric_interval=_resampled(metric, rows))
        found.append(one)
    return found


def _resampled(metric: Callable[[npt.NDArray[np.int64]], float], rows: npt.NDArray[np.int64]) -> Interval:
    return percentiles(bootstrap(lambda some: metric(rows[some]), len(rows), _RESAMPLES))


def holm(chances: Sequence[float]) -> list[float]:
    """Return p-values (M,) that are corrected for their number (Holm, "A simple sequentially rejective ...", 1979)."""
    values = np.array(chances, np.float64)
    order = np.argsort(values, kind="stable")
    steps = np.maximum.accumulate(values[order] * np.arange(len(values), 0, -1))
    out = np.empty_like(values)
    out[order] = np.minimum(steps, 1)
    return list(map(float, out))


def worst_slices(
    dimensions: Sequence[SliceColumn], scores: Floats, *, less_is_better: bool = False, beside: Sequence[Slice] = ()
) -> tuple[list[Slice], list[Slice]]:
    """Find the slices that are worse than the other rows by what chance does least, at most `WORST`.

    Compared are the values of dimensions, and pairs of values of the first `MOST_DIMENSIONS` of them, with `MIN_ROWS`
    rows and as many others. A pair is left out where one of its values stands before it. Where most rows have a value
    and are better, the others are the slice: language "not en".

    Args:
        scores: (R,) of each row.
        beside: slices of `each_value`.

    Returns:
        The worst slices, and `beside`; the chances of all are corrected together.
    """
    chance_of = _Chance(scores)
    sign = -1 if less_is_better else 1
    total = len(scores)
    candidates: list[tuple[dict[str, str], Members]] = []
    chances: list[float] = []
    for where, members in _candidates(dimensions):
        if MIN_ROWS <= members.sum() <= total - MIN_ROWS:
            candidates.append((where, members))
            chances.append(chance_of(members))
    mean = scores.mean() if total else 0.0
    after = holm([*chances, *(item.chance for item in beside)])
    shown: list[Slice] = []
    for index in np.argsort(chances, kind="stable").tolist():
        where, members = candidates[index]
        is_better = sign * (scores[members].mean() - mean) >= 0
        if is_better and len(where) == 1 and members.sum() > total / 2:
            where = {name: f"not {value}" for name, value in where.items()}
            members = ~members
            is_better = any((members == other).all() for _, other in candidates)  # which stands by itself
        if is_better or any(item.where.items() <= where.items() for item in shown):
            continue
        shown.append(_slice(where, members, scores, after[index]))
        if len(shown) == WORST:
            break
    return shown, [replace(item, chance=chance) for item, chance in zip(beside, after[len(chances) :], strict=True)]


def _candidates(dimensions: Sequence[SliceColumn]) -> Iterator[tuple[dict[str, str], Members]]:
    for one in dimensions:
        for code, value in enumerate(one.values):
            yield {one.name: value}, one.codes == code
    for one, two in itertools.combinations(dimensions[:MOST_DIMENSIONS], 2):
        table = np.zeros((len(one.values), len(two.values)), np.int64)
        np.add.at(table, (one.codes, two.codes), 1)
        smallest = np.minimum(table.sum(1)[:, None], table.sum(0)[None, :])
        for first, second in zip(*np.nonzero((table >= MIN_ROWS) & (table <= _DISTINCT * smallest)), strict=True):
            where = {one.name: one.values[first], two.name: two.values[second]}
            yield where, (one.codes == first) & (two.codes == second)


def _slice(
    where: dict[str, str],
    members: Members,
    scores: Floats,
    chance: float,
    *,
    label: str = "",
    expected: float | None = None,
) -> Slice:
    inside = scores[members]
    return Slice(
        where=where,
        rows=len(inside),
        value=float(inside.mean()),
        interval=rate_interval(inside),
        rest=float(scores[~members].mean()) if len(inside) < len(scores) else math.nan,
        chance=chance,
        label=label,
        expected=expected,
    )


class _Chance:
    """The p-values of slices of some scores (R,): of a difference that is at least as improbable, on either side."""

    def __init__(self, scores: Floats) -> None:
        self._scores = scores
        self._is_rate = bool(np.isin(scores, (0, 1)).all())
        self._hits = int(scores.sum()) if self._is_rate else 0
        self._log_factorials = np.cumsum(np.log(np.maximum(np.arange(len(scores) + 1), 1)))

    def __call__(self, members: Members) -> float:
        drawn = int(members.sum())
        total = len(self._scores)
        if not 0 < drawn < total:
            return 1.0
        if self._is_rate:
            return self._exact(total, drawn, int(self._scores[members].sum()))
        spread = float(self._scores.std(ddof=1)) * math.sqrt((total - drawn) / (total * drawn))
        if spread == 0:
            return 1.0
        far = abs(float(self._scores[members].mean() - self._scores.mean())) / spread
        return math.erfc(far / math.sqrt(2))

    def _exact(self, total: int, drawn: int, hits: int) -> float:
        """Return twice the smaller tail of the hypergeometric distribution of the hits among those drawn."""
        logs = self._log_factorials
        counts = np.arange(max(0, drawn - (total - self._hits)), min(drawn, self._hits) + 1)
        chosen = logs[self._hits] - logs[counts] - logs[self._hits - counts]
        misses = total - self._hits
        others = logs[misses] - logs[drawn - counts] - logs[misses - drawn + counts]
        chances = np.exp(chosen + others - (logs[total] - logs[drawn] - logs[total - drawn]))
        tails = chances[counts <= hits].sum(), chances[counts >= hits].sum()
        return float(min(1.0, 2 * min(tails)))
