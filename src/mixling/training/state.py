"""What a checkpoint holds: where a run stands, and its tensors under names."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor, distribute_tensor


@dataclass
class State:
    """What a checkpoint must know beside tensors."""

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
        """JSON values; JSON has no infinity, which stands for "nothing was evaluated yet"."""
        unknown = {"best_metric": None, "best_loss": None} if self.best_step < 0 else {}
        return {**vars(self), **unknown}

    @classmethod
    def from_values(cls, values: Mapping[str, Any]) -> Self:
        """Read back what `to_values` gave."""
        return cls(**{key: value for key, value in values.items() if value is not None})


def whole(tensor: Tensor) -> Tensor:
    """The tensor, gathered where each process has a part of it."""
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def weights_of(model: nn.Module) -> dict[str, Tensor]:
    """A copy of the weights, whole, on the CPU."""
    return {name: whole(value.detach()).cpu().clone() for name, value in model.state_dict().items()}


def load_weights(model: nn.Module, weights: Mapping[str, Tensor]) -> None:
    """Give a model whole weights; one whose parameters lie in parts takes the parts of this process."""
    own = model.state_dict()
    model.load_state_dict({name: _like(value, own[name]) if name in own else value for name, value in weights.items()})


def _like(value: Tensor, own: Tensor) -> Tensor:
    return distribute_tensor(value, own.device_mesh, own.placements) if isinstance(own, DTensor) else value


def pack(model: nn.Module, best: Mapping[str, Tensor], optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """The tensors of a run under flat names."""
    out = {f"model/{name}": whole(value) for name, value in model.state_dict().items()}
    out |= {f"best/{name}": value for name, value in best.items()}
    for number, slots in optimizer.state_dict()["state"].items():
        out |= {f"optimizer/{number}/{name}": whole(value) for name, value in slots.items()}
    return out


def unpack(tensors: Mapping[str, Tensor], model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """Give the model and the optimiser the tensors that `pack` named; returns the weights of the best evaluation."""
    groups: dict[str, dict[str, Tensor]] = {"model": {}, "best": {}, "optimizer": {}}
    for name, tensor in tensors.items():
        group, _, rest = name.partition("/")
        groups[group][rest] = tensor
    slots: dict[int, dict[str, Tensor]] = {}
    for name, tensor in groups["optimizer"].items():
        number, _, slot = name.partition("/")
        slots.setdefault(int(number), {})[slot] = tensor
    load_weights(model, groups["model"])
    order = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    for location, values in slots.items():
        values.update({name: _like(value, order[location]) for name, value in values.items() if value.ndim})
    optimizer.load_state_dict({**optimizer.state_dict(), "state": slots})
    return groups["best"]
