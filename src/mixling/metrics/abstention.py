"""Abstaining from uncertain answers: the threshold of the top probability for a wanted accuracy of what is answered.

The threshold is the one of largest coverage (the risk-coverage curve: El-Yaniv and Wiener, "On the Foundations of
Noise-free Selective Classification", JMLR 2010; Geifman and El-Yaniv, NeurIPS 2017).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

MIN_ANSWERED = 20  # examples that an accuracy is computed from, or all if there are fewer


@dataclass(frozen=True)
class Abstention:
    """A threshold and its effect on the examples that it was chosen on.

    Attributes:
        wanted: the accuracy that was asked for; None: chosen by out-of-scope texts, which are not in the other values.
        threshold: top probability below which a model abstains; None: no threshold has this accuracy.
        coverage: the fraction of examples that are answered.
        accuracy: the fraction of right answers among them. Without a threshold, the largest that can be had.
    """

    wanted: float | None
    threshold: float | None
    coverage: float
    accuracy: float


def choose_abstention(
    right: npt.NDArray[np.bool_], confidence: npt.NDArray[np.floating], *, wanted: float
) -> Abstention:
    """Return the lowest threshold with a wanted accuracy.

    Args:
        right: (B,) whether the most probable label of an example is its own.
        confidence: (B,) its probability.
    """
    order = np.argsort(-confidence, kind="stable")
    ordered = confidence[order].astype(np.float64)
    answered = np.arange(1, len(order) + 1)
    accuracy = np.cumsum(right[order]) / answered
    # Equal probabilities are all answered or none.
    possible = np.append(ordered[1:] < ordered[:-1], True) & (answered >= min(MIN_ANSWERED, len(order)))
    reached = np.flatnonzero(possible & (accuracy >= wanted))
    if not len(reached):
        best = int(np.where(possible, accuracy, -1).argmax())
        return Abstention(wanted, None, float(answered[best] / len(order)), float(accuracy[best]))
    last = int(reached[-1])
    # In the middle of the gap, so that no rounding moves an example over the threshold.
    following = ordered[last + 1] if last + 1 < len(order) else 0.0
    threshold = float((ordered[last] + following) / 2)
    return Abstention(wanted, threshold, float(answered[last] / len(order)), float(accuracy[last]))
