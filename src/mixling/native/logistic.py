"""Logistic regression on sparse features, for the n-gram branches of classifiers with few texts."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

# As scikit-learn's LogisticRegression ends; its import takes longer than all fits of a few hundred texts.
_TOLERANCE = 1e-4
_ITERATIONS = 1000

_Floats = npt.NDArray[np.float64]


def fit_sparse_logistic(
    features: Any, classes: npt.NDArray[np.integer], number: int, weights: npt.NDArray[np.floating], strength: float
) -> tuple[_Floats, _Floats]:
    """Return the weights (K, F) and biases (K,) with the smallest log-loss, converged or not: validation decides.

    The loss is the sum over the texts of weights times log-losses, times `strength`, and half the sum of the squares of
    the regression's weights, but not of its biases.

    Args:
        features: (B, F), sparse or dense.
        classes: (B,), from 0; each occurs.
        number: C, of classes; with two, K is 1, the log-odds of class 1, else C.
        weights: (B,) of the texts.
        strength: the inverse of the regularization.
    """
    from scipy.optimize import minimize

    matrix = features.astype(np.float64)
    scores = 1 if number == 2 else number
    texts, terms = matrix.shape
    scale = 1 / max(float(weights.sum()), 1e-12)
    costs = weights.astype(np.float64) * scale
    penalty = scale / strength
    wanted = (classes[:, None] == np.arange(number - scores, number)).astype(np.float64)  # (B, K)

    def objective(flat: _Floats) -> tuple[float, _Floats]:
        values = flat.reshape(terms + 1, scores)
        slopes = values[:-1]
        biases = values[-1]
        logits = matrix @ slopes + biases  # (B, K)
        if scores == 1:
            losses = np.logaddexp(0, logits[:, 0]) - logits[:, 0] * wanted[:, 0]
            found = 0.5 * (1 + np.tanh(logits / 2))
        else:
            logits -= logits.max(1, keepdims=True)
            found = np.exp(logits)
            sums = found.sum(1, keepdims=True)
            losses = np.log(sums[:, 0]) - logits[np.arange(texts), classes]
            found /= sums
        found -= wanted
        found *= costs[:, None]
        gradient = np.empty_like(values)
        gradient[:-1] = matrix.T @ found
        gradient[:-1] += penalty * slopes
        gradient[-1] = found.sum(0)
        return float(costs @ losses + penalty / 2 * np.square(slopes).sum()), gradient.ravel()

    start = np.zeros((terms + 1) * scores)
    options = {"gtol": _TOLERANCE, "ftol": 64 * np.finfo(float).eps, "maxiter": _ITERATIONS, "maxls": 50}
    solved = minimize(objective, start, jac=True, method="L-BFGS-B", options=options).x.reshape(terms + 1, scores)
    return solved[:-1].T, solved[-1]
