"""Choosing what computes the steps of a training: native steps for the models that they know, PyTorch for all."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mixling.errors import ConfigError
from mixling.training.backends.base import Backend
from mixling.training.backends.pytorch import TorchBackend

if TYPE_CHECKING:
    from torch import nn

    from mixling.training.backends.context import DistributedContext
    from mixling.training.config import TrainConfig
    from mixling.training.dataset_adapter import TrainingData


def choose_backend(
    model: nn.Module, data: TrainingData, config: TrainConfig, distributed: DistributedContext
) -> Backend:
    """Return the backend that the configuration names, or for "auto" the native one where it knows model and training.

    Raises:
        ConfigError: the native steps, which the configuration names, do not know the model or the training.
    """
    if knows_natively(model, data, config, distributed):
        from mixling.training.backends.shared_model import NativeBackend

        return NativeBackend(model, data, config, distributed)
    return TorchBackend(model, data.objective, config, distributed)


def knows_natively(model: nn.Module, data: TrainingData, config: TrainConfig, distributed: DistributedContext) -> bool:
    """Return whether native steps may be used, and know the model and the training.

    Raises:
        ConfigError: they do not, and the configuration names them.
    """
    if config.backend == "torch":
        return False
    from mixling.training.backends.shared_model import check_native

    try:
        check_native(model, data, config, distributed)
    except ConfigError as error:
        if config.backend == "native":
            raise ConfigError(f"train.backend: got 'native': {error}; allowed here: torch, auto") from None
        return False
    return True
