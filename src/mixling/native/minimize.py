"""Find the smallest value of a smooth function of many numbers, by its gradient.

Source: L-BFGS (Nocedal and Wright 2006, "Numerical optimization", algorithms 7.4 and 7.5), with steps that meet the
weak Wolfe conditions, found by the secant between two slopes. Decided here: ten pairs are remembered, and all numbers
have the type of the start. scipy's L-BFGS-B has the same minimum; a base install goes without its 140 MB.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Generic, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from mixling.native import _counts

_Floats = TypeVar("_Floats", npt.NDArray[np.float32], npt.NDArray[np.float64])

_PAIRS = 10
_DECREASE = 1e-3  # of the value, as a fraction of what the slope promises
_FLATTER = 0.9  # the slope after a step, as a fraction of the slope before it
_TRIES = 30  # of a step


class _Pair(NamedTuple, Generic[_Floats]):
    """A step, how it changed the slopes, the product of both, and the product of the change with itself."""

    moved: _Floats
    turned: _Floats
    curvature: float
    squares: float


def minimize(
    objective: Callable[[_Floats], tuple[float, _Floats]],
    start: _Floats,
    *,
    gradient: float = 1e-5,
    decrease: float = 2e-9,
    steps: int = 15_000,
) -> _Floats:
    """Return where a function is smallest, or where it ended after the last step.

    Args:
        objective: returns value and gradient.
        start: (N,).
        gradient: all of its numbers are at most this large at the end.
        decrease: a step that makes the value smaller by less than this, relative to it if it is above 1, is the last.
    """
    here = start
    value, slopes = objective(here)
    pairs: list[_Pair[_Floats]] = []
    for _ in range(steps):
        if np.abs(slopes).max(initial=0) <= gradient:
            break
        direction, slope = _direction(slopes, pairs)
        if slope >= 0:  # by rounding
            pairs.clear()
            direction, slope = _direction(slopes, pairs)
        step = 1.0 if pairs else min(1.0, 1 / math.sqrt(-slope))
        found = _step(objective, here, value, direction, slope, step)
        if found is None:
            if not pairs:
                break
            pairs.clear()  # what they say of the curvature is wrong here
            continue
        new, after, slopes_after = found
        moved = new - here
        turned = slopes_after - slopes
        pair = _Pair(moved, turned, dot(moved, turned), dot(turned, turned))
        if pair.curvature > np.finfo(start.dtype).eps * pair.squares:
            pairs[: max(len(pairs) + 1 - _PAIRS, 0)] = []
            pairs.append(pair)
        saved = value - after
        here = new
        value = after
        slopes = slopes_after
        if saved <= decrease * max(abs(value), 1):
            break
    return here


def dot(one: npt.NDArray[np.floating], other: npt.NDArray[np.floating]) -> float:
    """Return an inner product of (N,) and (N,), not by BLAS, whose sums depend on the number of its threads."""
    return _counts.dot(one, np.ascontiguousarray(other, one.dtype))


def _direction(slopes: _Floats, pairs: list[_Pair[_Floats]]) -> tuple[_Floats, float]:
    """Return where to go, by the slopes and the curvature as far as the pairs tell it, and the slope in this direction.

    Each vector is added and the next inner product taken in one pass, as both only wait for memory.
    """
    out = -slopes
    if not pairs:
        return out, dot(out, slopes)
    product = dot(pairs[-1].moved, out)
    parts = []
    for number in reversed(range(len(pairs))):
        pair = pairs[number]
        parts.append(product / pair.curvature)
        along = pairs[number - 1].moved if number else pair.turned
        product = _counts.add_dot(out, pair.turned, along, -parts[-1])
    scale = out.dtype.type(pairs[-1].curvature / pairs[-1].squares)
    out *= scale
    product *= float(scale)
    for number, pair in enumerate(pairs):
        along = pairs[number + 1].turned if number + 1 < len(pairs) else slopes
        product = _counts.add_dot(out, pair.moved, along, parts.pop() - product / pair.curvature)
    return out, product


def _step(
    objective: Callable[[_Floats], tuple[float, _Floats]],
    here: _Floats,
    value: float,
    direction: _Floats,
    slope: float,
    step: float,
) -> tuple[_Floats, float, _Floats] | None:
    """Return where a step in a direction leads, with value and gradient; None if there is no step that helps."""
    low = 0.0
    slope_low = slope
    high = math.inf
    best = None
    for _ in range(_TRIES):
        new = here + here.dtype.type(step) * direction
        after, slopes = objective(new)
        slope_there = dot(direction, slopes)
        flat = math.nan  # where the secant of the slopes is 0
        if math.isfinite(slope_there) and slope_there > slope_low:
            flat = low + (step - low) * slope_low / (slope_low - slope_there)
        if not after <= value + _DECREASE * step * slope:
            high = step
        elif slope_there < _FLATTER * slope:
            best = new, after, slopes
            low = step
            slope_low = slope_there
        else:
            return new, after, slopes
        margin = 0.1 * (high - low) if high < math.inf else 0.0
        least, most = (low + margin, high - margin) if high < math.inf else (1.1 * low, 10 * low)
        step = (
            min(max(flat, least), most) if math.isfinite(flat) else min((low + high) / 2, 4 * low if low else high / 2)
        )
    return best
