"""What a comparison says, in one sentence."""

from __future__ import annotations

from dataclasses import dataclass

from mixling.comparison.outcome import Comparison
from mixling.metrics.base import metric_title
from mixling.metrics.intervals import Interval


@dataclass(frozen=True, kw_only=True)
class Conclusion:
    """How much better our model is than the best of the others, on rows that none was trained or chosen on.

    Attributes:
        rival: the name of the other system; None: there is none.
        ahead: the difference of the headline metric, above 0 where ours is better.
        interval: its paired 95% interval; None without a rival.
    """

    rival: str | None
    ahead: float
    interval: Interval | None
    sentence: str


def conclusion_of(found: Comparison) -> Conclusion:
    """Return the conclusion of a comparison.

    The best of the others is the one with the best mean on these rows. To choose it there favors it, so that the
    sentence does not say too much for our model. Where some read the columns beside the texts, it is the best of those,
    unless another is better still.
    """
    ours = found.reference
    sign = 1 if found.task.less_is_better else -1
    ahead = {
        name: (sign * result.difference + 0.0, _turned(result.difference_interval, sign))
        for name, result in found.test.items()
        if result.difference is not None and result.difference_interval is not None
    }
    if not ahead:
        return Conclusion(rival=None, ahead=0.0, interval=None, sentence=f"{ours} is alone: no other system answered.")
    rival = min(ahead, key=lambda name: ahead[name][0])
    difference, interval = ahead[rival]
    readers = [one.name for one in found.systems if one.reads_columns]
    beside = "" if not readers else " that read the columns" if rival in readers else ", although it reads no columns"
    best = f"{rival}, the best of the others{beside}," if len(ahead) > 1 else rival
    metric = metric_title(found.task.headline)
    rows = f"{len(found.held_out.texts):,} {found.split} rows"
    if found.task.less_is_better:
        unit = f" of {metric}"
        scale = 1.0
        digits = ".3g"
    else:
        unit = f" points of {metric}"
        scale = 100.0
        digits = ".1f"
    low = scale * interval.low
    high = scale * interval.high
    if interval.low > 0:
        said = f"better than {best} by {scale * difference:{digits}}{unit} [{low:{digits}}, {high:{digits}}]"
    elif interval.high < 0:
        said = f"worse than {best} by {-scale * difference:{digits}}{unit} [{-high:{digits}}, {-low:{digits}}]"
    else:
        signed = f"{scale * difference:+{digits}}{unit} [{low:+{digits}}, {high:+{digits}}]"
        return Conclusion(
            rival=rival,
            ahead=difference,
            interval=interval,
            sentence=f"Between {ours} and {best} there is no difference that {rows} could show: {signed}.",
        )
    sentence = f"{ours} is {said}, on {rows}."
    return Conclusion(rival=rival, ahead=difference, interval=interval, sentence=sentence)


def _turned(interval: Interval, sign: int) -> Interval:
    """Return the interval of a value times 1 or -1."""
    return interval if sign > 0 else Interval(0.0 - interval.high, 0.0 - interval.low)  # never -0.0
