"""How well a model separates texts that it should answer from texts that have none of its labels (out of scope).

Both are ranked by their top probability (Hendrycks and Gimpel, "A Baseline for Detecting Misclassified and
Out-of-Distribution Examples", ICLR 2017).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mixling.metrics.ranking import Ranking, roc_area

_ACCEPTED = 0.95


@dataclass(frozen=True)
class OutOfScope:
    """Metrics of out-of-scope texts.

    Attributes:
        texts: their number.
        auroc: the probability that a text in scope has a higher top probability than one that is not; ties count half.
        false_accept_rate: the fraction of out-of-scope texts that are answered; None: the model never abstains.
        false_accept_rate_at_95: that fraction at the threshold from which on 95% of the texts in scope are answered.
    """

    texts: int
    auroc: float
    false_accept_rate: float | None
    false_accept_rate_at_95: float

    def summary(self) -> str:
        """Return the metrics in one line."""
        rate = "" if self.false_accept_rate is None else f"false-accept rate {self.false_accept_rate:.4f}, "
        return (
            f"out of scope: AUROC {self.auroc:.4f}, {rate}false-accept rate where 95% in scope are answered "
            f"{self.false_accept_rate_at_95:.4f}, {self.texts} texts"
        )


def out_of_scope_report(
    inside: npt.NDArray[np.floating], outside: npt.NDArray[np.floating], *, threshold: float | None
) -> OutOfScope:
    """Return the metrics of top probabilities of texts in scope (B,) and out of scope (R,).

    Args:
        threshold: below which the model abstains; None: it never does.
    """
    lowest = np.sort(inside)[::-1][math.ceil(_ACCEPTED * len(inside)) - 1]
    return OutOfScope(
        texts=len(outside),
        auroc=roc_area(inside, outside),
        false_accept_rate=None if threshold is None else float((outside >= threshold).mean()),
        false_accept_rate_at_95=float((outside >= lowest).mean()),
    )


def choose_rejection(
    right: npt.NDArray[np.bool_], inside: npt.NDArray[np.floating], outside: npt.NDArray[np.floating]
) -> float:
    """Return the threshold of the highest mean of two rates: right answers in scope, and rejected texts out of scope.

    Args:
        right: (B,) whether the most probable label of a text in scope is its own.
        inside, outside: top probabilities (B,), (R,).
    """
    values = np.concatenate([inside, outside])
    gains = np.concatenate([right / len(inside), np.full(len(outside), -1 / len(outside))])  # of answering
    ranking = Ranking.of(values)
    best = int(np.where(ranking.possible, np.cumsum(gains[ranking.order]), -np.inf).argmax())
    return ranking.threshold_below(best)
