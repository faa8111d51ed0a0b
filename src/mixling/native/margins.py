"""Linear support vector machines on sparse features, for the n-gram branches of classifiers."""

from __future__ import annotations

import contextlib
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import numpy.typing as npt

_TOLERANCE, _PASSES = 0.01, 50


def fit_margins(
    features: Any,
    marks: npt.NDArray[np.bool_],
    weights: npt.NDArray[np.floating],
    strength: float,
    *,
    tolerance: float = _TOLERANCE,
    passes: int = _PASSES,
    threads: int = 1,
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Fit a linear support vector machine with squared hinge loss for each label.

    Its margins, scaled, are as good log-odds as those of logistic regression, and with many labels it is ten times as
    fast (experiments/ngrams.py). Whether it converged, validation shows. Where the native module is not built,
    scikit-learn's LIBLINEAR computes the same with several times the memory.

    Args:
        features: sparse matrix (B, F).
        marks: (K, B), whether each text has each label. A label of all or no texts needs no features.
        weights: (B,) or (K, B) of the texts.
        strength: inverse of the regularization.
        tolerance: of the largest difference between gradients in the dual problem, at which a fit ends.
        passes: over the texts at most.
        threads: number of labels that are fitted at the same time; the result does not depend on it.

    Returns:
        Weights (K, F) and biases (K,).
    """
    native: Any = None
    with contextlib.suppress(ImportError):
        from mixling.native import _margins as native
    costs = np.broadcast_to(strength * weights.astype(np.float64), marks.shape)
    found = np.zeros((len(marks), features.shape[1] + 1))
    arrays = features.indptr.astype(np.int32, copy=False), features.indices.astype(np.int32, copy=False)
    values = features.data.astype(np.float32, copy=False)

    def fit(label: int) -> None:
        out, mine, cost = found[label], marks[label], costs[label]
        if mine.all() or not mine.any():
            out[-1] = 1 if mine.all() else -1
        elif native is None:
            out[:-1], out[-1] = _fit_by_liblinear(features, mine, cost, tolerance, passes)
        else:
            signs = np.where(mine, 1, -1).astype(np.int8)
            native.fit_margins(*arrays, values, signs, np.ascontiguousarray(cost), out, tolerance, passes)

    # The native module works without the interpreter's lock; LIBLINEAR's warnings are not safe in threads.
    with ThreadPoolExecutor(threads if native is not None else 1) as pool:
        list(pool.map(fit, range(len(marks))))
    return found[:, :-1], found[:, -1]


def _fit_by_liblinear(
    features: Any, marks: npt.NDArray[np.bool_], costs: npt.NDArray[np.float64], tolerance: float, passes: int
) -> tuple[npt.NDArray[np.float64], float]:
    import warnings

    from sklearn.exceptions import ConvergenceWarning
    from sklearn.svm import LinearSVC

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = LinearSVC(tol=tolerance, max_iter=passes, random_state=0).fit(features, marks, sample_weight=costs)
    return model.coef_[0], float(model.intercept_[0])
