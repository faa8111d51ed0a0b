"""Logistic and ridge regression on features of texts: of n-gram branches with few texts, and of linear baselines."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from threadpoolctl import threadpool_limits

from mixling.arrays import Float32, Float64
from mixling.native.minimize import dot, minimize
from mixling.native.sparse import SparseRows

# As scikit-learn's LogisticRegression ends; its import takes longer than all fits of a few hundred texts.
_TOLERANCE = 1e-4
_STEPS = 1000
_RESIDUAL = 1e-6  # of a ridge regression's equations, as a fraction of their right side
_FEW = 4096  # texts whose products with each other are worth their memory
_WORTH = 8  # times as many products as weights that are worth their time

Rows = SparseRows | Float32


def fit_logistic(
    features: Rows,
    classes: npt.NDArray[np.integer],
    number: int,
    strength: float,
    weights: npt.NDArray[np.floating] | None = None,
) -> tuple[Float32, Float32]:
    """Return the weights (K, F) and biases (K,) with the smallest log-loss, converged or not: validation decides.

    The loss is the sum over the texts of weights times log-losses, times `strength`, and half the sum of the squares of
    the regression's weights, but not of its biases. Of few texts with many terms, the weights are sums of the texts'
    features (Kimeldorf and Wahba, 1971), and the search is among their B coefficients, in coordinates in which it takes
    the same steps: texts are the rows of a Cholesky factor of their products with each other.

    Args:
        features: (B, F), sparse or dense.
        classes: (B,), from 0; each occurs.
        number: C, of classes; with two, K is 1, the log-odds of class 1, else C.
        strength: the inverse of the regularization.
        weights: (B,) of the texts; None: all are 1.
    """
    scores = 1 if number == 2 else number
    texts, terms = features.shape
    transposed = _transposed(features)
    factor = None
    if isinstance(features, SparseRows) and texts <= min(_FEW, terms) and texts**2 <= _WORTH * terms * (scores - 1):
        factor = features.factor()
    size = terms if factor is None else texts
    costs = np.ones(texts) if weights is None else weights.astype(np.float64)
    scale = 1 / max(float(costs.sum()), 1e-12)
    costs = costs * scale
    penalty = np.float32(scale / strength)
    wanted = classes[:, None] == np.arange(number - scores, number)  # (B, K)

    def objective(flat: Float32) -> tuple[float, Float32]:
        values = flat.reshape(size + 1, scores)
        products = features @ values[:-1] if factor is None else factor.transposed_times(values[:-1])
        logits = products.astype(np.float64) + values[-1]  # (B, K)
        if number == 2:
            losses = np.logaddexp(0, logits[:, 0]) - logits[:, 0] * wanted[:, 0]
            slopes = 0.5 * (1 + np.tanh(logits / 2))
        else:
            logits -= logits.max(1, keepdims=True)
            slopes = np.exp(logits)
            sums = slopes.sum(1, keepdims=True)
            losses = np.log(sums[:, 0]) - logits[np.arange(texts), classes]
            slopes /= sums
        slopes -= wanted
        slopes *= costs[:, None]
        gradient = np.empty_like(values)
        slopes32 = slopes.astype(np.float32)
        gradient[:-1] = transposed @ slopes32 if factor is None else factor.times(slopes32)
        gradient[:-1] += penalty * values[:-1]
        gradient[-1] = slopes.sum(0)
        squares = dot(flat[: size * scores], flat[: size * scores])
        return float(dot(costs, losses) + penalty / 2 * squares), gradient.ravel()

    start = np.zeros((size + 1) * scores, np.float32)
    with threadpool_limits(1):  # the sums of BLAS depend on the number of its threads
        solved = minimize(objective, start, gradient=_TOLERANCE, steps=_STEPS).reshape(size + 1, scores)
    found = solved[:-1] if factor is None else transposed @ factor.divide(solved[:-1])
    return np.ascontiguousarray(found.T), solved[-1]


def fit_ridge(
    features: Rows,
    numbers: npt.NDArray[np.floating],
    strength: float,
    weights: npt.NDArray[np.floating] | None = None,
) -> tuple[Float64, float]:
    """Return the weights (F,) and the bias with the smallest squared error, by conjugate gradients.

    The loss is the sum over the texts of weights times squared errors, times `strength`, and the sum of the squares of
    the regression's weights, but not of its bias.

    Args:
        features: (B, F), sparse or dense.
        numbers: (B,), what the texts have.
        strength: the inverse of the regularization.
        weights: (B,) of the texts; None: all are 1.
    """
    transposed = _transposed(features)
    costs = np.ones(len(numbers)) if weights is None else weights.astype(np.float64)
    total = max(float(costs.sum()), 1e-12)
    means = (transposed @ costs.astype(np.float32)) / total
    center = dot(costs, numbers) / total

    def backward(errors: npt.NDArray[np.floating]) -> Float64:
        errors = errors * costs
        products = transposed @ errors.astype(np.float32)
        return np.asarray(products - means * errors.sum(), np.float64)

    out = np.zeros(features.shape[1])
    residual = backward(numbers - center)
    direction = residual
    size = dot(residual, residual)
    least = _RESIDUAL**2 * size
    for _ in range(_STEPS):
        if size <= least:
            break
        scores = (features @ direction.astype(np.float32)) - dot(means, direction)
        turned = backward(scores) + direction / strength
        step = size / dot(direction, turned)
        out += step * direction
        residual = residual - step * turned
        before = size
        size = dot(residual, residual)
        direction = residual + size / before * direction
    return out, center - dot(means, out)


def _transposed(features: Rows) -> Rows:
    return features.transposed() if isinstance(features, SparseRows) else features.T
