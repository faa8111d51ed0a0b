"""Find the smallest value of a smooth function of many numbers, by its gradient.

Source: L-BFGS (Nocedal and Wright 2006, "Numerical optimization", algorithms 7.4 and 7.5), with steps that meet the
weak Wolfe conditions, found by the secant between two slopes. Decided here: ten pairs are remembered, and all numbers
have the type of the start. scipy's L-BFGS-B has the same minimum; a base install goes without its 140 MB.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeVar

import numpy as np
import numpy.typing as npt

_Floats = TypeVar("_Floats", npt.NDArray[np.float32], npt.NDArray[np.float64])

_PAIRS = 10
_DECREASE = 1e-3  # of the value, as a fraction of what the slope promises
_FLATTER = 0.9  # the slope after a step, as a fraction of the slope before it
_TRIES = 30  # of a step


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
    pairs: list[tuple[_Floats, _Floats, float]] = []
    for _ in range(steps):
        if np.abs(slopes).max(initial=0) <= gradient:
            break
        direction = -_curved(slopes, pairs)
        slope = dot(direction, slopes)
        if slope >= 0:  # by rounding
            pairs.clear()
            direction = -slopes
            slope = dot(direction, slopes)
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
        if (curvature := dot(moved, turned)) > np.finfo(start.dtype).eps * dot(turned, turned):
            pairs[: max(len(pairs) + 1 - _PAIRS, 0)] = []
            pairs.append((moved, turned, curvature))
        saved = value - after
        here = new
        value = after
        slopes = slopes_after
        if saved <= decrease * max(abs(value), 1):
            break
    return here


def dot(one: npt.NDArray[np.floating], other: npt.NDArray[np.floating]) -> float:
    """Return an inner product, not by BLAS, whose sums depend on the number of its threads."""
    return float(np.einsum("i,i->", one, other, dtype=np.float64))


def _curved(slopes: _Floats, pairs: list[tuple[_Floats, _Floats, float]]) -> _Floats:
    """Return a gradient times the inverse of the curvature, as far as the pairs tell it."""
    out = slopes.copy()
    parts = []
    for moved, turned, curvature in reversed(pairs):
        parts.append(dot(moved, out) / curvature)
        out -= out.dtype.type(parts[-1]) * turned
    if pairs:
        _, turned, curvature = pairs[-1]
        out *= out.dtype.type(curvature / dot(turned, turned))
    for (moved, turned, curvature), part in zip(pairs, reversed(parts), strict=True):
        out += out.dtype.type(part - dot(turned, out) / curvature) * moved
    return out


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
