"""Arrays as tensors and back: arguments of models, and their weights by name."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy.typing as npt
import torch
from torch import Tensor, nn

if TYPE_CHECKING:
    from torch.distributed.tensor import DTensor


def tensor_of(value: npt.NDArray[Any] | Tensor, device: torch.device | None = None) -> Tensor:
    """Return an array, or a tensor, as a tensor on a device; on the CPU they share memory."""
    tensor = value if isinstance(value, Tensor) else torch.from_numpy(value)
    return tensor if device is None else tensor.to(device)


def tensors_of(
    values: Iterable[npt.NDArray[Any] | Tensor | None], device: torch.device | None = None
) -> list[Tensor | None]:
    """Return arrays or tensors as tensors on a device; see `tensor_of`."""
    return [None if value is None else tensor_of(value, device) for value in values]


def array_of(tensor: Tensor) -> npt.NDArray[Any]:
    """Return a copy of a tensor, gathered from all processes if it is sharded."""
    return gather(tensor.detach()).cpu().numpy().copy()


def weights_of(model: nn.Module) -> dict[str, npt.NDArray[Any]]:
    """Return a copy of the full weights, gathered from all processes if they are sharded."""
    return {name: array_of(value) for name, value in model.state_dict().items()}


def restore_weights(model: nn.Module, weights: Mapping[str, npt.NDArray[Any]]) -> None:
    """Load full weights into a model, whose parameters may be sharded."""
    own = model.state_dict()
    model.load_state_dict(
        {name: like(torch.from_numpy(value), own[name]) if name in own else value for name, value in weights.items()}
    )


def like(value: Tensor, own: Tensor) -> Tensor:
    """Return a full tensor, sharded as another one is."""
    sharded = _sharded(own)
    if sharded is None:
        return value
    from torch.distributed.tensor import distribute_tensor

    return distribute_tensor(value, sharded.device_mesh, sharded.placements)


def gather(tensor: Tensor) -> Tensor:
    """Return the full tensor, gathered from all processes if it is sharded."""
    sharded = _sharded(tensor)
    return tensor if sharded is None else sharded.full_tensor()


def _sharded(tensor: Tensor) -> DTensor | None:
    """Return the tensor if it is sharded; importing the class takes a second, which only sharding needs."""
    module = sys.modules.get("torch.distributed.tensor")
    return tensor if module is not None and isinstance(tensor, module.DTensor) else None
