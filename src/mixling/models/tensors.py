"""Arrays as tensors and back: arguments of models, and their weights by name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy.typing as npt
import torch
from torch import Tensor, nn


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
    """Return a copy of a tensor."""
    return tensor.detach().cpu().numpy().copy()


def weights_of(model: nn.Module) -> dict[str, npt.NDArray[Any]]:
    """Return a copy of the weights."""
    return {name: array_of(value) for name, value in model.state_dict().items()}


def restore_weights(model: nn.Module, weights: Mapping[str, npt.NDArray[Any]]) -> None:
    """Load weights into a model."""
    model.load_state_dict({name: torch.from_numpy(value) for name, value in weights.items()})
