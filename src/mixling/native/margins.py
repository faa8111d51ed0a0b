"""Linear support vector machines on sparse features, for the n-gram branches of classifiers."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import numpy.typing as npt

from mixling.arrays import Float32
from mixling.native import _margins

# With 0.01 the losses on validation are the same, and fits take two to three times as long.
_TOLERANCE = 0.2
_PASSES = 50
MAX_PASSES = 10_000  # MOST_PASSES of linear/margins.c
# Tried on validation where labels are so few; of CLINC150's 150 labels they made the fits slower, and none better.
RATIO_POWERS = (0.5, 1.0)
MAX_RATIO_LABELS = 16
_TOGETHER = (1, 4, 8, 16)  # numbers of labels that the native module fits together


def fit_margins(
    features: Any,
    marks: npt.NDArray[np.bool_],
    weights: npt.NDArray[np.floating],
    strength: float,
    *,
    ratio_power: float = 0.0,
    duals: Float32 | None = None,
    kept: npt.NDArray[np.bool_] | None = None,
    tolerance: float = _TOLERANCE,
    passes: int = _PASSES,
    threads: int = 1,
    columns: int = 0,
) -> tuple[npt.NDArray[np.floating], npt.NDArray[np.floating]]:
    """Fit a linear support vector machine with squared hinge loss for each label.

    Its margins, scaled, are as good log-odds as logistic regression's, and with many labels it is ten times as
    fast (experiments/ngrams.py). Whether it converged, validation shows.

    Args:
        features: sparse matrix (B, F).
        marks: (K, B), whether each text has each label. A label of all or no texts needs no features.
        weights: (B,) or (K, B) of the texts; one without weight is left out.
        strength: inverse of the regularization.
        ratio_power: each label has features of its own, the given ones times the absolute `log_count_ratios` to this
            power: what distinguishes the label is regularized less (NBSVM: Wang and Manning 2012, "Baselines and
            bigrams", section 2.3, has 1). Decided beyond the paper: the power, and features keep their mean square.
        duals: (B, K), where the fit begins and, in place, where it ends: zeros, or another fit's duals
            or of some of these texts, after which it takes fewer passes.
        kept: (K, F), the features that each label has; None: all.
        tolerance: of the largest difference between gradients in the dual problem, at which a fit ends.
        passes: over the texts at most; 0 to `MAX_PASSES`.
        columns: number of the last features that have no log-count ratios: columns beside the texts.
        threads: number of groups of labels that are fitted at the same time; the result does not depend on it.

    Returns:
        Weights (K, F) and biases (K,).

    Raises:
        ValueError: there are too many passes, or less than 0.
    """
    if not 0 <= passes <= MAX_PASSES:
        raise ValueError(f"passes: got {passes:,}; allowed: 0 to {MAX_PASSES:,}")
    counts = np.broadcast_to(weights > 0, marks.shape)
    found = np.zeros((len(marks), features.shape[1] + 1), np.float32)
    has = (marks & counts).any(1)
    lacks = (~marks & counts).any(1)
    found[:, -1] = np.where(has, 1, -1)
    labels = np.flatnonzero(has & lacks)
    scale = None if ratio_power == 0 else _scales(features, marks, weights, 2 * ratio_power)
    if scale is not None and columns:
        scale[:, -columns:] = 1
    if kept is not None:
        scale = np.where(kept, np.float32(1) if scale is None else scale, np.float32(0))
    arrays = _arrays(features)

    def fit(part: npt.NDArray[np.int64]) -> None:
        width = next(number for number in _TOGETHER if number >= len(part))
        signs, costs, duals_of = (np.zeros((len(marks[0]), width), kind) for kind in (np.int8, np.float32, np.float32))
        signs[:, : len(part)] = np.where(marks[part], 1, -1).T
        costs[:, : len(part)] = strength * np.broadcast_to(weights, marks.shape)[part].T
        if duals is not None:
            duals_of[:, : len(part)] = duals[:, part]
        out = np.zeros((found.shape[1], width), np.float32)
        scale_of = None
        if scale is not None:
            scale_of = np.ones((features.shape[1], width), np.float32)
            scale_of[:, : len(part)] = scale[part].T
        _margins.fit_margins(width, *arrays, signs, costs, duals_of, out, scale_of, tolerance, passes)
        found[part] = out[:, : len(part)].T
        if duals is not None:
            duals[:, part] = duals_of[:, : len(part)]

    parts = np.split(labels, range(_TOGETHER[-1], len(labels), _TOGETHER[-1]))
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(fit, [part for part in parts if len(part)]))
    return found[:, :-1], found[:, -1]


def log_count_ratios(
    features: Any, marks: npt.NDArray[np.bool_], weights: npt.NDArray[np.floating]
) -> npt.NDArray[np.float32]:
    """Return (K, F): by how much the texts with a label have each feature more frequently than the others, as a log.

    Args:
        features, marks, weights: as of `fit_margins`; one text more and one less with each feature is added to both.
    """
    return _ratios_and_squares(features, marks, weights)[0]


def _scales(
    features: Any, marks: npt.NDArray[np.bool_], weights: npt.NDArray[np.floating], power: float
) -> npt.NDArray[np.float32]:
    """Return (K, F): the absolute log-count ratios to a power, times what keeps the mean square of the features."""
    ratios, squares = _ratios_and_squares(features, marks, weights)
    scale = np.abs(ratios) ** power
    scaled = scale @ squares
    kept = np.where(scaled > 0, squares.sum() / np.maximum(scaled, 1e-30), 1)
    return (scale * kept[:, None]).astype(np.float32)


def _ratios_and_squares(
    features: Any, marks: npt.NDArray[np.bool_], weights: npt.NDArray[np.floating]
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float64]]:
    """Return the log-count ratios (K, F), and the sums of squares (F,) of the features."""
    weights = np.atleast_2d(weights).astype(np.float32)  # (1, B) or (K, B)
    having = np.where(marks, weights, np.float32(0))
    counts, squares = _sum_by_feature(features, np.concatenate([having, weights]).T)
    with_label = counts[:, : len(marks)]
    others = counts[:, len(marks) :] - counts[:, : len(marks)]
    size = having.sum(1)
    ratios = np.log((with_label + 1) / (size + 2)) - np.log((others + 1) / (weights.sum(1) - size + 2))
    return np.ascontiguousarray(ratios.T, np.float32), squares


def _sum_by_feature(
    features: Any, of_texts: npt.NDArray[np.float32]
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float64]]:
    """Return (F, N): numbers (B, N) of the texts that have each feature, added up, and (F,): the features' squares."""
    sums = np.zeros((features.shape[1], of_texts.shape[1]), np.float32)
    squares = np.zeros(features.shape[1])
    _margins.sum_by_feature(of_texts.shape[1], *_arrays(features), np.ascontiguousarray(of_texts), sums, squares)
    return sums, squares


def _arrays(features: Any) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32], npt.NDArray[np.float32]]:
    """Return the starts of the texts, and the columns and values of their features."""
    starts, columns = (item.astype(np.int32, copy=False) for item in (features.indptr, features.indices))
    return starts, columns, features.data.astype(np.float32, copy=False)
