"""Abstaining from uncertain answers: the threshold of the top probability for a wanted accuracy of the answers.

The threshold is the one of largest coverage (the risk-coverage curve: El-Yaniv and Wiener, "On the Foundations of
Noise-free Selective Classification", JMLR 2010; Geifman and El-Yaniv, NeurIPS 2017). As it is chosen on few examples,
their accuracy is higher than on new ones. One wrong answer more than there are is counted against it, as in
conformal risk control (Angelopoulos et al., ICLR 2024, section 2): k right answers of n count as k / (n + 1).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mixling.metrics.ranking import Ranking

USUAL = (0.9, 0.95, 0.98, 0.99)  # accuracies whose thresholds are reported


@dataclass(frozen=True)
class Abstention:
    """A threshold and its effect on the examples that it was chosen on.

    Attributes:
        wanted: the accuracy that was asked for; None: chosen by out-of-scope texts, which are not in the other values.
        threshold: top probability below which a model abstains; None: no threshold has this accuracy.
        coverage: the fraction of examples that are answered.
        accuracy: the fraction of right answers among them. Without a threshold, the largest that can be wanted, and
            its coverage.
    """

    wanted: float | None
    threshold: float | None
    coverage: float
    accuracy: float


def choose_abstention(
    right: npt.NDArray[np.bool_], confidence: npt.NDArray[np.floating], *, wanted: float
) -> Abstention:
    """Return the lowest threshold with a wanted accuracy, which needs wanted / (1 - wanted) right answers at least.

    Args:
        right: (B,) whether the most probable label of an example is its own; or (B, K) of labels with levels, where the
            deepest answer that reaches the threshold counts.
        confidence: (B,) or (B, K) its probability.
    """
    right = right.reshape(len(right), -1)
    ranking = Ranking.of(confidence.ravel())
    first = np.zeros(right.shape, np.int64)
    first[:, 0] = 1
    answered = np.cumsum(first.ravel()[ranking.order]).astype(np.float64)
    hits = np.cumsum(np.diff(right.astype(np.float64), axis=1, prepend=0).ravel()[ranking.order])
    lower = hits / (answered + 1)
    reached = np.flatnonzero(ranking.possible & (lower >= wanted))
    if not len(reached):
        best = int(np.where(ranking.possible, lower, -1).argmax())
        return Abstention(wanted, None, float(answered[best] / len(right)), float(lower[best]))
    last = int(reached[-1])
    coverage = float(answered[last] / len(right))
    accuracy = float(hits[last] / answered[last])
    return Abstention(wanted, ranking.threshold_below(last), coverage, accuracy)


def risk_coverage(right: npt.NDArray[np.bool_], confidence: npt.NDArray[np.floating]) -> tuple[Abstention, ...]:
    """Return the thresholds of `USUAL` accuracies: some points of the risk-coverage curve.

    Args:
        right, confidence: as of `choose_abstention`.
    """
    return tuple(choose_abstention(right, confidence, wanted=value) for value in USUAL)
