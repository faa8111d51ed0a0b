"""Likely label errors by confident learning, from probabilities of models that did not see the examples.

Northcutt, Jiang and Chuang: Confident Learning: Estimating Uncertainty in Dataset Labels, JAIR 2021, section 3. n is
the number of examples, C of labels.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from mixling.arrays import Float64, Int64

_PLANTED = 20_000  # wrong labels, at least
_CLOSE = 1e-6  # a probability this little below a threshold reaches it


def thresholds(given: Int64, probabilities: Float64) -> Float64:
    """Return how sure a model is of each label on average (C,), over the examples with that label.

    A label without examples cannot be reached.
    """
    own = probabilities[np.arange(len(given)), given]
    counts = np.bincount(given, minlength=probabilities.shape[1])
    sums = np.bincount(given, weights=own, minlength=probabilities.shape[1])
    return np.where(counts > 0, sums / np.maximum(counts, 1), np.inf)


def confident_labels(given: Int64, probabilities: Float64) -> Int64:
    """Return the label (n,) that each example is confidently counted as; -1 where no label reaches its threshold."""
    reached = probabilities >= thresholds(given, probabilities) - _CLOSE
    number = reached.sum(1)
    # Several labels that are reached: the most probable one of all (section 3.1, collisions).
    guess = np.where(number > 1, probabilities.argmax(1), reached.argmax(1))
    return np.where(number > 0, guess, -1)


def likely_errors(given: Int64, probabilities: Float64) -> npt.NDArray[np.bool_]:
    """Return the examples (n,) that are confidently counted as another label than the given one.

    None of them has its own label as the most probable one, as in cleanlab.
    """
    confident = confident_labels(given, probabilities)
    errors: npt.NDArray[np.bool_] = (confident >= 0) & (confident != given) & (probabilities.argmax(1) != given)
    return errors


def planted_errors(given: Int64, probabilities: Float64, *, seed: int = 0) -> Float64:
    """Return the probabilities of wrong labels that are planted: of each example one of the others, at random.

    So many are drawn, sorted, that their distribution is smooth. A label that would not be found as an error has inf.
    """
    number, labels = probabilities.shape
    rng = np.random.default_rng(seed)
    confident = confident_labels(given, probabilities)
    best = probabilities.argmax(1)
    rows = np.arange(number)
    out = []
    for _ in range(-(-_PLANTED // number)):
        other = rng.integers(0, labels - 1, number)
        other += other >= given
        found = (confident >= 0) & (confident != other) & (best != other)
        out.append(np.where(found, probabilities[rows, other], np.inf))
    return np.sort(np.concatenate(out))


def planted_mark_errors(given: Int64, probabilities: Float64) -> Float64:
    """Return what `planted_errors` does of labels that do not exclude each other: each is once planted or left out."""
    both = (
        planted_errors(marks, np.stack([1 - values, values], axis=1))
        for marks, values in zip(given.T, probabilities.T, strict=True)
    )
    return np.sort(np.concatenate(list(both)))


def likely_mark_errors(given: Int64, probabilities: Float64) -> npt.NDArray[np.bool_]:
    """Return the likely errors (n, C) of labels that do not exclude each other: each label against all others.

    Args:
        given: (n, C) 1 for the labels of an example, otherwise 0.
    """
    out = np.zeros(given.shape, bool)
    for label, (marks, values) in enumerate(zip(given.T, probabilities.T, strict=True)):
        out[:, label] = likely_errors(marks, np.stack([1 - values, values], axis=1))
    return out


def mark_confidence(given: Int64, probabilities: Float64) -> Float64:
    """Return the probability (n, C) that an example has a label, or has it not, as given."""
    return np.where(given > 0, probabilities, 1 - probabilities)


def self_confidence(given: Int64, probabilities: Float64) -> Float64:
    """Return the probability of each example's own label (n,); the lower, the more likely it is wrong."""
    return probabilities[np.arange(len(given)), given]
