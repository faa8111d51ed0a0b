"""How much a network and the linear n-gram branch count in the sum of their logits, fitted by log-loss."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from mixling.native.minimize import minimize
from mixling.tasks.base import Task


@dataclass(frozen=True, slots=True, eq=False)
class Mixture:
    """The weights of a network's and a branch's logits in their sum, and the term added to it.

    Attributes:
        bias: (K,), added to the branch's scores.
        loss: the task's loss with them on the texts that they were fitted on.
        alone: the loss of the network alone.
    """

    network: float
    branch: float
    bias: npt.NDArray[np.float32]
    loss: float
    alone: float
    columns: float = 0.0

    def addition(
        self, task: Task, branch: npt.NDArray[Any], columns: npt.NDArray[Any] | None = None
    ) -> npt.NDArray[np.float32]:
        """Return the term added to the network's weighted logits, given the branch's logits (B, C) of texts and of the
        columns beside them."""
        added = 0 if columns is None else self.columns * columns
        return (self.branch * branch + added + task.logits_of_scores(self.bias[None])).astype(np.float32)


def fit_mixture(
    task: Task,
    network: npt.NDArray[Any] | None,
    branch: npt.NDArray[Any] | None,
    targets: npt.NDArray[Any],
    *,
    columns: npt.NDArray[Any] | None = None,
    usual: float = 3.0,
    examples: int | None = None,
) -> Mixture:
    """Return the weights and biases with the smallest loss on texts that neither model was trained on.

    Of few texts the loss alone would choose extreme weights. A term for each, as large as a fraction of one text's
    loss, holds the weights near to 1 for the network and to `usual` for the branch, and the biases near to 0. Biases
    correct what the two models count twice, or both get wrong, of the labels' frequencies. Labels with weights have
    none, since the loss here does not have these weights, nor have labels that are more than the examples.

    Args:
        network, branch: logits (B, C) of at least one; without the other its weight is 0.
        columns: logits (B, C) of the branch for the columns beside the texts.
        usual: what the weight is for many sets of texts, since margins are smaller than log-odds.
        examples: number of different examples among the texts, which have copies of some; by default all.
    """
    found = {"network": (network, 1.0), "branch": (branch, usual), "columns": (columns, usual)}
    given = {name: item for name, item in found.items() if item[0] is not None}
    parts = np.stack([np.asarray(part, np.float64) for part, _ in given.values()])
    middle = np.array([weight for _, weight in given.values()])
    number = len(targets) if examples is None else examples
    biases = task.num_scores if task.class_weights is None and task.num_scores <= number else 0
    of_scores = task.logits_of_scores(np.eye(biases, dtype=np.float32)).astype(np.float64)  # (K, C), linear

    def logits(values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        return np.tensordot(values[: len(parts)], parts, 1) + (values[len(parts) :] @ of_scores if biases else 0)

    def objective(values: npt.NDArray[np.float64]) -> tuple[float, npt.NDArray[np.float64]]:
        loss, slope = task.score_loss(logits(values), targets)
        away = values[: len(parts)] / middle - 1
        added = values[len(parts) :] @ of_scores if biases else np.zeros(1)
        slopes = (parts * slope).sum(axis=tuple(range(1, parts.ndim))) * number + 2 * away / middle
        of_biases = of_scores @ (slope.sum(0) * number + 2 * added) if biases else np.zeros(0)
        return loss * number + float(away @ away + added @ added), np.concatenate([slopes, of_biases])

    def solve(free: tuple[bool, ...]) -> npt.NDArray[np.float64]:
        """Return the best values where some weights are not free, but 0."""
        mask = np.append(np.array(free, np.float64), np.ones(biases))

        def masked(values: npt.NDArray[np.float64]) -> tuple[float, npt.NDArray[np.float64]]:
            value, slopes = objective(values)
            return value, slopes * mask

        return minimize(masked, np.append(middle, np.zeros(biases)) * mask)

    best = solve((True,) * len(parts))
    if best[: len(parts)].min() < 0:  # the function is convex: with no weight below 0, it is smallest where some are 0
        tried = [solve(free) for free in itertools.product((False, True), repeat=len(parts)) if not all(free)]
        allowed = [values for values in tried if values[: len(parts)].min() >= 0]
        best = min(allowed, key=lambda values: objective(values)[0])
    weights = dict(zip(given, best[: len(parts)].tolist(), strict=True))
    bias = np.zeros(task.num_scores, np.float32)
    bias[:biases] = best[len(parts) :]
    return Mixture(
        network=weights.get("network", 0.0),
        branch=weights.get("branch", 0.0),
        columns=weights.get("columns", 0.0),
        bias=bias,
        loss=task.score_loss(logits(best), targets)[0],
        alone=task.score_loss(parts[0], targets)[0],
    )
