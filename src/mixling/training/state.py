"""The content of a checkpoint: the progress of a run, and its tensors under flat names."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

import torch
from torch import Tensor, nn

if TYPE_CHECKING:
    from torch.distributed.tensor import DTensor


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


def _sharded(tensor: Tensor) -> DTensor | None:
    """Return the tensor if it is sharded; importing the class takes a second, which only sharding needs."""
    module = sys.modules.get("torch.distributed.tensor")
    return tensor if module is not None and isinstance(tensor, module.DTensor) else None


def gather(tensor: Tensor) -> Tensor:
    """Return the full tensor, gathered from all processes if it is sharded."""
    sharded = _sharded(tensor)
    return tensor if sharded is None else sharded.full_tensor()


def weights_of(model: nn.Module) -> dict[str, Tensor]:
    """Return a copy of the full weights on the CPU."""
    return {name: gather(value.detach()).cpu().clone() for name, value in model.state_dict().items()}


def restore_weights(model: nn.Module, weights: Mapping[str, Tensor]) -> None:
    """Load full weights into a model, whose parameters may be sharded."""
    own = model.state_dict()
    model.load_state_dict({name: _like(value, own[name]) if name in own else value for name, value in weights.items()})


def _like(value: Tensor, own: Tensor) -> Tensor:
    sharded = _sharded(own)
    if sharded is None:
        return value
    from torch.distributed.tensor import distribute_tensor

    return distribute_tensor(value, sharded.device_mesh, sharded.placements)


def pack(model: nn.Module, best: Mapping[str, Tensor], optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """Return the tensors of model, best evaluation and optimizer under flat names."""
    out = {f"model/{name}": gather(value) for name, value in model.state_dict().items()}
    out |= {f"best/{name}": value for name, value in best.items()}
    for number, slots in optimizer.state_dict()["state"].items():
        out |= {f"optimizer/{number}/{name}": gather(value) for name, value in slots.items()}
    return out


def unpack(tensors: Mapping[str, Tensor], model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """Load the tensors that `pack` returned into model and optimizer; return the weights of the best evaluation."""
    groups: dict[str, dict[str, Tensor]] = {"model": {}, "best": {}, "optimizer": {}}
    for name, tensor in tensors.items():
        group, _, rest = name.partition("/")
        groups[group][rest] = tensor
    slots: dict[int, dict[str, Tensor]] = {}
    for name, tensor in groups["optimizer"].items():
        index, _, slot = name.partition("/")
        slots.setdefault(int(index), {})[slot] = tensor
    restore_weights(model, groups["model"])
    order = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    for number, values in slots.items():
        values.update({name: _like(value, order[number]) for name, value in values.items() if value.ndim})
    optimizer.load_state_dict({**optimizer.state_dict(), "state": slots})
    return groups["best"]
