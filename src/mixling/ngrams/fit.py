"""Fitting a linear n-gram branch: a convex fit, the terms that a number of bytes has room for, 8 bits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from mixling.arrays import Float32
from mixling.ngrams.features import Features
from mixling.tasks.base import Task
from mixling.text.ngram_branch import MAX_PER_TERM, NgramBranch, stored_bytes, term_bytes


def prune(
    task: Task,
    features: Features,
    targets: npt.NDArray[Any],
    weights: npt.NDArray[np.float32] | None,
    *,
    strength: float,
    max_bytes: int,
    ratio_power: float = 0.0,
    few: bool = False,
    duals: Float32 | None = None,
) -> Features:
    """Return the features that fit into a branch's bytes, chosen by their weights in a fit of all.

    Fitted again without the others, they take over what these were needed for (experiments/README.md). The given
    features are no longer of use afterwards, as their memory is used.

    Args:
        targets, weights, strength, ratio_power, few, duals: as of `fit_branch`.
    """
    if term_bytes(len(features.hashes)) + len(features.hashes) * task.num_scores <= _room(max_bytes, task.num_scores):
        return features
    options: dict[str, Any] = {"strength": strength, "ratio_power": ratio_power, "few": few, "duals": duals}
    fitted, *_ = _fit(task, features, targets, weights, **options)
    kept = _kept(features, np.ascontiguousarray(fitted.T, np.float32), max_bytes)
    if kept.all():
        return features
    columns = np.flatnonzero(kept.any(1))
    return replace(features.keep(columns), kept=kept[columns])


def fit_branch(
    task: Task,
    features: Features,
    targets: npt.NDArray[Any],
    weights: npt.NDArray[np.float32] | None,
    *,
    strength: float,
    max_bytes: int | None,
    ratio_power: float = 0.0,
    few: bool = False,
    duals: Float32 | None = None,
) -> NgramBranch:
    """Fit the linear model and store it in 8 bits, with as many weights as fit into a number of bytes.

    Args:
        targets: of all texts, as the task has them as numbers; `weights` (B,) are the user's of the texts.
        strength: the inverse of the regularization.
        max_bytes: None: all weights are kept.
        ratio_power, few, duals: as of `Task.fit_scores`.
    """
    fitted, bias, columns = _fit(
        task, features, targets, weights, strength=strength, ratio_power=ratio_power, few=few, duals=duals
    )
    branch = compress(features, fitted, bias, max_bytes=max_bytes)
    return branch if features.columns is None else replace(branch, columns=np.ascontiguousarray(columns.T, np.float32))


def _fit(
    task: Task, features: Features, targets: npt.NDArray[Any], weights: npt.NDArray[np.float32] | None, **options: Any
) -> tuple[npt.NDArray[np.floating], npt.NDArray[np.floating], npt.NDArray[np.floating]]:
    """Return the weights (K, F) of the terms' frequencies, the biases (K,) and the weights (K, W) of the columns."""
    chosen = features.chosen
    given = None if weights is None else weights[chosen]
    kept = None if features.kept is None or features.kept.all() else features.kept.T
    number = features.num_columns
    if kept is not None and number:
        kept = np.concatenate([kept, np.ones((len(kept), number), bool)], axis=1)
    fitted, bias = task.fit_scores(features.beside(), targets[chosen], given, kept=kept, columns=number, **options)
    terms = len(features.hashes)
    return fitted[:, :terms] * features.factors, bias, fitted[:, terms:]


def compress(
    features: Features,
    weights: npt.NDArray[np.floating],
    bias: npt.NDArray[np.floating],
    *,
    max_bytes: int | None,
) -> NgramBranch:
    """Return a branch with the weights (K, F) that matter most: by size, times how large their features are."""
    table = np.ascontiguousarray(weights.T, np.float32)  # (F, K)
    used = np.arange(len(table))
    if max_bytes is not None:
        kept = _kept(features, table, max_bytes)
        table, used = np.where(kept, table, 0), np.flatnonzero(kept.any(1))
    scale = np.abs(table).max(0, initial=0) / 127
    scale = np.where(scale > 0, scale, 1).astype(np.float32)
    packed = np.rint(table / scale).astype(np.int8)
    used = used[np.unique(features.hashes[used], return_index=True)[1]]  # ascending; of equal hashes the first
    return NgramBranch(features.hashes[used], features.squares[used], packed[used], scale, np.asarray(bias, np.float32))


def _kept(features: Features, table: npt.NDArray[np.float32], max_bytes: int) -> npt.NDArray[np.bool_]:
    """Return which of the weights (F, K) a branch of this size has."""
    return _choose(np.abs(table) * features.spread[:, None], _room(max_bytes, table.shape[1]))


def _room(max_bytes: int, outputs: int) -> int:
    """Return how many of a branch's bytes terms and weights may take."""
    return max_bytes - 8 * outputs - 200


def _choose(matters: npt.NDArray[np.float32], max_bytes: int) -> npt.NDArray[np.bool_]:
    """Choose which weights (F, K) to keep within a size: by term or by weight, whichever discards less."""
    outputs = matters.shape[1]
    of_term = np.square(matters).sum(1)
    order = np.argsort(-of_term, kind="stable")
    most = most_within(lambda number: term_bytes(number) + number * outputs, len(order), max_bytes)
    whole = np.zeros(matters.shape, bool)
    whole[order[:most]] = True
    if outputs == 1:
        return whole
    ranked = np.sort(matters, axis=None)[::-1]
    largest = np.sort(matters.max(1))

    def size(number: int) -> int:
        terms = len(largest) - int(np.searchsorted(largest, ranked[number - 1])) if number else 0
        return term_bytes(terms) + stored_bytes(terms, number, outputs)

    most = most_within(size, int(np.count_nonzero(ranked)), max_bytes)
    single = matters >= ranked[most - 1] if most else np.zeros_like(whole)
    crowded = np.flatnonzero(single.sum(1) > MAX_PER_TERM)
    for row in crowded:
        single[row, np.argsort(-matters[row], kind="stable")[MAX_PER_TERM:]] = False
    return max((whole, single), key=lambda kept: float(np.square(matters[kept], dtype=np.float64).sum()))


def most_within(size: Callable[[int], int], number: int, limit: int) -> int:
    """Return the largest number, up to `number`, whose size is within a limit; sizes grow with the number."""
    low = 0
    high = number
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if size(middle) <= limit else (low, middle - 1)
    return low
