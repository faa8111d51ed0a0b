"""Arrays as tensors and back: arguments of models, and their weights by name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy.typing as npt
import torch
from torch import Tensor, nn

from mixling.layers.masks import all_true


def tensor_of(value: npt.NDArray[Any] | Tensor, device: torch.device | None = None) -> Tensor:
    """Return an array, or a tensor, as a tensor on a device; on the CPU they share memory.

    Nobody waits for the copy to a GPU, which a mask that is true everywhere does not need: see `all_real`.
    """
    tensor = value if isinstance(value, Tensor) else torch.from_numpy(value)
    if device is None or device.type == "cpu" or tensor.device.type != "cpu":
        return tensor if device is None else tensor.to(device)
    if tensor.dtype == torch.bool and tensor.ndim == 2 and bool(tensor.all()):
        return all_true(tensor.shape, device)
    return (tensor.pin_memory() if device.type == "cuda" else tensor).to(device, non_blocking=True)


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
