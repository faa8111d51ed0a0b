"""How far predicted probabilities agree with observed frequencies.

Probabilities are sorted into equal bins; of each bin the mean probability and the observed frequency are compared. The
expected calibration error is the mean of their distance over all decisions (Naeini et al., "Obtaining Well Calibrated
Probabilities Using Bayesian Binning", AAAI 2015; Guo et al., "On Calibration of Modern Neural Networks", ICML 2017,
section 2). The bins are the reliability diagram (Niculescu-Mizil and Caruana, ICML 2005).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

CALIBRATION_BINS = 15
_BAR = 40


@dataclass(frozen=True)
class ReliabilityBin:
    """The decisions whose probability is in one bin.

    Attributes:
        count: number of decisions.
        confidence: their mean probability.
        accuracy: the fraction of them that are right.
    """

    count: int
    confidence: float
    accuracy: float


Reliability = tuple[ReliabilityBin | None, ...]
"""Bins of equal width from 0 to 1; None: no decision is in it."""


def reliability(right: npt.NDArray[np.bool_], probabilities: npt.NDArray[np.floating]) -> Reliability:
    """Return the bins of decisions (D,) and of the probabilities (D,) that they are right."""
    bins = np.minimum((probabilities * CALIBRATION_BINS).astype(int), CALIBRATION_BINS - 1)
    counts = np.bincount(bins, minlength=CALIBRATION_BINS)
    confidence, accuracy = (
        (np.bincount(bins, weights=values, minlength=CALIBRATION_BINS) / np.maximum(counts, 1)).tolist()
        for values in (probabilities.astype(np.float64), right.astype(np.float64))
    )
    return tuple(
        ReliabilityBin(count, confidence[number], accuracy[number]) if count else None
        for number, count in enumerate(counts.tolist())
    )


def calibration_error(bins: Reliability) -> float:
    """Return the sum over bins b of (n_b / n) * |accuracy_b - confidence_b|; 0 if there is no decision."""
    filled = [item for item in bins if item is not None]
    total = sum(item.count for item in filled)
    return sum(item.count * abs(item.accuracy - item.confidence) for item in filled) / max(total, 1)


def calibration_error_by_chance(bins: Reliability) -> float:
    """Return the mean calibration error of a calibrated model with as many decisions in the same bins.

    The error of few decisions is mostly this one: of 277 decisions with probabilities near 0.6 it is 0.04. In each bin
    the number of right decisions is taken as binomial, of n decisions with the mean probability p; its mean absolute
    deviation from np is 2 (m + 1) C(n, m + 1) p^(m + 1) (1 - p)^(n - m), m the integer part of np (de Moivre 1730).
    """
    filled = [item for item in bins if item is not None]
    deviations = (_mean_deviation(item.count, item.confidence) for item in filled)
    return sum(deviations) / max(sum(item.count for item in filled), 1)


def _mean_deviation(n: int, p: float) -> float:
    m = int(n * p)
    if not 0 < p < 1 or m == n:
        return 0.0
    log_choices = math.lgamma(n + 1) - math.lgamma(m + 2) - math.lgamma(n - m)
    return 2 * (m + 1) * math.exp(log_choices + (m + 1) * math.log(p) + (n - m) * math.log1p(-p))


def format_reliability(bins: Reliability) -> str:
    """Return the reliability diagram as text: `#` up to the accuracy, `|` at the mean probability."""
    lines = ["probability   decisions   mean  accuracy  0" + f"{'0.5':>{_BAR // 2 + 2}}{'1':>{_BAR - _BAR // 2 - 2}}"]
    for number, item in enumerate(bins):
        span = f"{number / len(bins):.3f}-{(number + 1) / len(bins):.3f}"
        if item is not None:
            bar = list(("#" * round(item.accuracy * _BAR)).ljust(_BAR + 1))
            bar[round(item.confidence * _BAR)] = "|"
            values = f"{item.count:>10,}  {item.confidence:.3f}  {item.accuracy:8.3f}  {''.join(bar)}"
            lines.append(f"{span}  {values}".rstrip())
    lines.append("(# accuracy, | mean probability: calibrated where the bar ends at the mark)")
    errors = (
        f"{calibration_error(bins):.4f}; by chance, with as many decisions: {calibration_error_by_chance(bins):.4f}"
    )
    return "\n".join([*lines, f"calibration error {errors}"])
