"""Choosing what computes the steps of a training: native steps for the networks of arrays, PyTorch for all others."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from mixling.errors import ConfigError
from mixling.installation import install_command, is_installed
from mixling.limits import require_memory_of_torch
from mixling.networks.initial import initial_weights
from mixling.networks.network import UnreadNetwork
from mixling.networks.plan import plan_network
from mixling.tasks.base import Task
from mixling.training.backends.native_backend import NativeBackend, NativeNetwork, check_native

if TYPE_CHECKING:
    from mixling.networks.config import ModelConfig, Output
    from mixling.networks.network import TextNetwork
    from mixling.training.backends.base import Backend
    from mixling.training.backends.context import DistributedContext
    from mixling.training.callbacks import Log
    from mixling.training.config import TrainConfig
    from mixling.training.dataset_adapter import TrainingData


def make_network(
    config: ModelConfig, num_outputs: int, output: Output, *, natively: bool = True, seed: int | None = None
) -> TextNetwork:
    """Return a network: of arrays where native steps know it, or nobody reads it beside n-grams, else of PyTorch.

    Args:
        config: complete, with the rows of the embedding table.
        num_outputs: C.
        output: see `TextNetwork`.
        natively: False: of PyTorch in any case.
        seed: of the initial weights; None: any.

    Raises:
        ConfigError: parts of the configuration do not fit each other, or PyTorch is needed and not installed.
    """
    plan = None
    with contextlib.suppress(ConfigError):
        plan = plan_network(config, num_outputs, output, any_width=not config.blocks and natively)
    initial = None if plan is None or seed is None else initial_weights(config, plan.shapes, seed)
    network: TextNetwork
    if plan is not None and natively and plan.knows_widths:
        network = NativeNetwork(config, num_outputs=num_outputs, output=output)
    elif plan is not None and natively:
        network = UnreadNetwork(config, num_outputs=num_outputs, output=output, shapes=plan.shapes)
    else:
        need_torch("this model")
        from mixling.models.network import build_network

        network = build_network(config, num_outputs=num_outputs, output=output, seed=seed)
    if initial is not None:  # the same ones in both
        network.restore(initial)
    return network


def shapes_of(config: ModelConfig, num_outputs: int, output: Output) -> Mapping[str, tuple[int, ...]]:
    """Return the shapes of a network's weights by name, without memory for them; raises as `make_network`."""
    with contextlib.suppress(ConfigError):
        return plan_network(config, num_outputs, output, any_width=not config.blocks).shapes
    need_torch("this model")
    from mixling.models.network import shapes_of_model

    return shapes_of_model(config, num_outputs, output)


def need_torch(what: str) -> None:
    """Raise a `ConfigError` that names what installs PyTorch, or a `UserError` where it has too little memory."""
    if not is_installed("torch"):
        raise ConfigError(f"{what} needs PyTorch, which is not installed: {install_command('torch')}")
    require_memory_of_torch()


def choose_backend(
    model: Any, data: TrainingData, config: TrainConfig, distributed: DistributedContext, log: Log
) -> Backend:
    """Return the backend that trains a network, or a model of PyTorch; the log is told which device was chosen."""
    if isinstance(model, NativeNetwork):
        assert isinstance(data.objective, Task), "native steps are for labels of texts and for answers in them"
        return NativeBackend(model, data.objective, config)
    from mixling.models.network import TorchNetwork
    from mixling.training.backends.device import device_of
    from mixling.training.backends.pytorch import TorchBackend

    module = model.model if isinstance(model, TorchNetwork) else model
    return TorchBackend(module, data.objective, config, distributed, device_of(module, data, config, log))


def trains_natively(
    config: ModelConfig, task: Task, training: TrainConfig, distributed: DistributedContext, *, distilled: bool
) -> bool:
    """Return whether native steps may be used, and know the model and the training.

    Args:
        distilled: whether targets are a teacher's probabilities.

    Raises:
        ConfigError: they do not, and the configuration names them.
    """
    if training.backend == "torch":
        return False
    try:
        check_native(config, task, training, distributed, distilled=distilled)
    except ConfigError as error:
        if training.backend == "native":
            raise ConfigError(f"train.backend: got 'native': {error}; allowed here: torch, auto") from None
        return False
    return True
