"""Native steps of a model of PyTorch, with which they share the memory of the parameters."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor, nn

from mixling.data.batches import Batch, Inputs
from mixling.errors import ConfigError
from mixling.models.model import Model
from mixling.training.backends import native
from mixling.training.backends.base import Backend, StepPart, StepSums
from mixling.training.backends.native import NativeBatch, NativeNetwork
from mixling.training.backends.network import NetworkPlan, plan_network
from mixling.training.backends.pytorch import device_of, is_half
from mixling.training.dataset_adapter import LabeledData
from mixling.training.questions import QuestionData
from mixling.training.state import restore_weights, weights_of

if TYPE_CHECKING:
    from mixling.tasks.objective import LossTerms
    from mixling.training.backends.context import DistributedContext
    from mixling.training.config import TrainConfig
    from mixling.training.dataset_adapter import TrainingData


class NativeBackend(Backend):
    """A model of PyTorch whose steps and evaluations are native.

    Args:
        model: its parameters are moved into the array that the native steps read and write.
        data: its objective is the loss.
        config: optimizer and precision.
        distributed: the only process.

    Raises:
        ConfigError: the native steps do not know the model or the training.
    """

    def __init__(
        self, model: nn.Module, data: TrainingData, config: TrainConfig, distributed: DistributedContext
    ) -> None:
        plan, terms = check_native(model, data, config, distributed)
        assert isinstance(model, Model)
        half = is_half(config, torch.device("cpu"))
        self._model = model
        self._network = NativeNetwork(plan, config.optim, terms, half=half)
        views = self._network.parameters()
        for name, parameter in model.named_parameters():
            views[name][...] = parameter.detach().numpy()
            parameter.data = torch.from_numpy(views[name])

    def step(self, parts: Iterable[StepPart], *, rate: float, seed: int, signum: int) -> StepSums:
        (part,) = parts
        self._network.threads = torch.get_num_threads()
        found = self._network.step(*_arrays(part), rate, seed=seed)
        return StepSums(loss=found.loss, weight=found.weight, norm=found.norm, signum=signum, tokens=part.tokens)

    def differentiate(self, parts: Iterable[StepPart], *, seed: int) -> None:
        (part,) = parts
        self._network.threads = torch.get_num_threads()
        self._network.gradients(*_arrays(part), seed=seed)

    def evaluate(self, data: TrainingData) -> tuple[dict[str, float], float]:
        self._network.threads = torch.get_num_threads()
        return data.evaluate(self._model, lambda batch: torch.from_numpy(self._network.evaluate(_native_batch(batch))))

    def weights(self) -> dict[str, Tensor]:
        return weights_of(self._model)

    def state(self, best: Mapping[str, Tensor]) -> dict[str, Tensor]:
        out = {f"model/{name}": value for name, value in self._model.state_dict().items()}
        out |= {f"best/{name}": value for name, value in best.items()}
        return out | {f"optimizer/{name}": torch.from_numpy(value) for name, value in self._network.state().items()}

    def load(self, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        groups: dict[str, dict[str, Tensor]] = {"model": {}, "best": {}, "optimizer": {}}
        for name, tensor in tensors.items():
            group, _, rest = name.partition("/")
            groups[group][rest] = tensor
        restore_weights(self._model, groups["model"])
        self._network.load({name: tensor.numpy() for name, tensor in groups["optimizer"].items()})
        return groups["best"]


def check_native(
    model: nn.Module, data: TrainingData, config: TrainConfig, distributed: DistributedContext
) -> tuple[NetworkPlan, LossTerms]:
    """Return the plan of the network and its loss, as native steps know them.

    Raises:
        ConfigError: the native steps do not know the model or the training.
    """
    if native._native is None:
        raise ConfigError("the native module is not built")
    if not isinstance(model, Model) or not isinstance(data, LabeledData | QuestionData):
        raise ConfigError("native steps are for labels of texts and for answers in them")
    _check_training(config, distributed)
    plan = plan_network(model.config, len(data.objective.labels), data.objective.output)
    if any(not parameter.requires_grad for parameter in model.parameters()):
        raise ConfigError("parameters that are not trained are unknown to the native steps")
    return plan, _loss_terms(data, transitions="head.transitions" in plan.shapes)


def _check_training(config: TrainConfig, distributed: DistributedContext) -> None:
    """Refuse trainings that the native steps do not know."""
    if config.optim.name != "adamw":
        raise ConfigError(f"train.optim.name: got {config.optim.name!r}, which is unknown to the native steps")
    if distributed.world > 1:
        raise ConfigError(f"native steps use the threads of one process; there are {distributed.world} processes")
    if device_of(config).type != "cpu":
        raise ConfigError(f"native steps are for processors, not for {device_of(config).type}")
    if config.gradient_accumulation_steps > 1:
        got = config.gradient_accumulation_steps
        raise ConfigError(f"train.gradient_accumulation_steps: got {got}; native steps need little memory")


def _loss_terms(data: LabeledData | QuestionData, *, transitions: bool) -> LossTerms:
    terms = data.objective.loss_terms(transitions=transitions)
    if terms is None:
        raise ConfigError(f"the loss of {data.objective.name} is unknown to the native steps")
    of_teacher = isinstance(data, LabeledData) and len(data.train_targets) and np.ndim(data.train_targets[0]) > 1
    if terms.kind == "sequences" and of_teacher:
        raise ConfigError("transitions of tags cannot be learned from a teacher's probabilities in native steps")
    return terms


def _arrays(part: StepPart) -> tuple[NativeBatch, np.ndarray, np.ndarray | None]:
    return _native_batch(part.batch), part.targets.numpy(), None if part.weights is None else part.weights.numpy()


def _native_batch(batch: Inputs) -> NativeBatch:
    assert isinstance(batch, Batch), "labeled texts are collated into batches of words"
    factors = None if batch.weights is None else batch.weights.numpy()
    return NativeBatch(batch.features.numpy(), factors, batch.index.numpy(), batch.mask.numpy())
