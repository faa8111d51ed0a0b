"""The progress of a run, and the arrays of a checkpoint under flat names."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

import numpy.typing as npt

NamedArrays = dict[str, npt.NDArray[Any]]


@dataclass
class TrainingState:
    """The progress of a run."""

    total_steps: int
    eval_interval: int
    step: int = 0
    best_step: int = -1
    best_metric: float = -math.inf
    best_loss: float = math.inf
    stale: int = 0
    loss_sum: float = 0.0
    loss_weight: float = 0.0
    stopped: bool = False
    history: list[dict[str, Any]] = field(default_factory=list)

    def to_values(self) -> dict[str, Any]:
        """Return JSON values; infinity, which means "not evaluated yet", is null."""
        unknown = {"best_metric": None, "best_loss": None} if self.best_step < 0 else {}
        return {**vars(self), **unknown}

    @classmethod
    def from_values(cls, values: Mapping[str, Any]) -> Self:
        """Return the state from the result of `to_values`."""
        return cls(**{key: value for key, value in values.items() if value is not None})


def pack(
    model: Mapping[str, npt.NDArray[Any]], best: Mapping[str, npt.NDArray[Any]], optimizer: NamedArrays
) -> NamedArrays:
    """Return the arrays of model, best evaluation and optimizer under flat names."""
    groups = {"model": model, "best": best, "optimizer": optimizer}
    return {f"{group}/{name}": value for group, values in groups.items() for name, value in values.items()}


def unpack(arrays: Mapping[str, npt.NDArray[Any]]) -> tuple[NamedArrays, NamedArrays, NamedArrays]:
    """Return the arrays of model, best evaluation and optimizer that `pack` put together."""
    groups: dict[str, NamedArrays] = {"model": {}, "best": {}, "optimizer": {}}
    for name, value in arrays.items():
        group, _, rest = name.partition("/")
        groups[group][rest] = value
    return groups["model"], groups["best"], groups["optimizer"]
