"""A network of arrays, and the backend that trains it by native steps: neither needs PyTorch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import numpy as np

from mixling.arrays import Float32
from mixling.data.batches import Batch, Inputs
from mixling.errors import ConfigError
from mixling.networks.config import ModelConfig, Output
from mixling.networks.network import NamedWeights, TextNetwork
from mixling.networks.plan import NetworkPlan, plan_network
from mixling.threads import num_threads
from mixling.training.backends import native
from mixling.training.backends.base import Backend, StepPart, StepSums
from mixling.training.backends.native import NativeBatch, NativeSteps
from mixling.training.optim import OptimConfig
from mixling.training.state import NamedArrays, pack, unpack

if TYPE_CHECKING:
    from mixling.tasks.base import Task
    from mixling.tasks.objective import LossTerms
    from mixling.training.backends.context import DistributedContext
    from mixling.training.config import TrainConfig
    from mixling.training.dataset_adapter import TrainingData


class NativeNetwork(TextNetwork):
    """Weights as arrays, at first zero, and logits by the native forward pass.

    Args:
        config: complete, with the rows of the embedding table.
        num_outputs: C.
        output: see `TextNetwork`.

    Raises:
        ConfigError: the native steps do not know a layer.
    """

    def __init__(self, config: ModelConfig, *, num_outputs: int, output: Output) -> None:
        super().__init__(config, num_outputs=num_outputs, output=output)
        self.plan: NetworkPlan = plan_network(config, num_outputs, output)
        self.num_parameters = sum(view.size for view in self.plan.views(np.empty(self.plan.size, np.float32)).values())
        self._forward = NativeSteps(self.plan, OptimConfig(), None)

    def weights(self) -> NamedWeights:
        return {name: view.copy() for name, view in self._forward.parameters().items()}

    def restore(self, weights: Mapping[str, Float32]) -> None:
        for name, view in self._forward.parameters().items():
            view[...] = weights[name]

    def logits(self, batch: Batch) -> Float32:
        self._forward.threads = num_threads()
        return self._forward.evaluate(native_batch(batch))

    def copy(self) -> NativeNetwork:
        made = NativeNetwork(self.config, num_outputs=self.num_outputs, output=self.output)
        made.restore(self.weights())
        return made


class NativeBackend(Backend):
    """A network whose steps and evaluations are native.

    Args:
        network: gets the weights of the training at its end.
        objective: the loss.
        config: optimizer and precision.
    """

    def __init__(self, network: NativeNetwork, objective: Task, config: TrainConfig) -> None:
        self._network = network
        self._steps = NativeSteps(
            network.plan, config.optim, loss_terms(objective, network), half=config.precision == "bfloat16"
        )
        for name, value in network.weights().items():
            self._steps.parameters()[name][...] = value
        self.of_tokens = network.of_tokens

    def step(self, parts: Iterable[StepPart], *, rate: float, seed: int, signum: int) -> StepSums:
        (part,) = parts
        self._steps.threads = num_threads()
        found = self._steps.step(native_batch(part.batch), part.targets, part.weights, rate, seed=seed)
        return StepSums(loss=found.loss, weight=found.weight, norm=found.norm, signum=signum, tokens=part.tokens)

    def differentiate(self, parts: Iterable[StepPart], *, seed: int) -> None:
        (part,) = parts
        self._steps.threads = num_threads()
        self._steps.gradients(native_batch(part.batch), part.targets, part.weights, seed=seed)

    def evaluate(self, data: TrainingData) -> tuple[dict[str, float], float]:
        return data.evaluate(self)

    @property
    def transitions(self) -> Float32 | None:
        """The learned transitions of tags; see `Evaluated`."""
        found = self._steps.parameters().get("head.transitions")
        return None if found is None else found.copy()

    def logits(self, batch: Batch) -> Float32:
        """Return the logits of a batch; see `Evaluated`."""
        self._steps.threads = num_threads()
        return self._steps.evaluate(native_batch(batch))

    def weights(self) -> NamedArrays:
        return {name: view.copy() for name, view in self._steps.parameters().items()}

    def finish(self, weights: NamedArrays) -> None:
        self._network.restore(weights)

    def state(self, best: NamedArrays) -> NamedArrays:
        return pack(self.weights(), best, self._steps.state())

    def load(self, arrays: NamedArrays) -> NamedArrays:
        model, best, optimizer = unpack(arrays)
        for name, view in self._steps.parameters().items():
            view[...] = model[name]
        self._steps.load(optimizer)
        return best


def check_native(
    config: ModelConfig, task: Task, training: TrainConfig, distributed: DistributedContext, *, distilled: bool
) -> None:
    """Refuse models and trainings that the native steps do not know.

    Args:
        distilled: whether targets are a teacher's probabilities.

    Raises:
        ConfigError: the message names what they do not know.
    """
    if training.optim.name != "adamw":
        raise ConfigError(f"train.optim.name: got {training.optim.name!r}, which is unknown to the native steps")
    if distributed.world > 1:
        raise ConfigError(f"native steps use the threads of one process; there are {distributed.world} processes")
    if training.device == "cuda":
        raise ConfigError("native steps are for processors, not for cuda")
    if training.compile == "on":
        raise ConfigError("native steps are C, and not compiled by PyTorch")
    if training.gradient_accumulation_steps > 1:
        got = training.gradient_accumulation_steps
        raise ConfigError(f"train.gradient_accumulation_steps: got {got}; native steps need little memory")
    plan = plan_network(config, len(task.labels), task.output)
    terms = task.loss_terms(transitions="head.transitions" in plan.shapes)
    if terms is None or terms.kind not in native.KINDS:
        raise ConfigError(f"the loss of {task.name} is unknown to the native steps")
    if terms.kind == "sequences" and distilled:
        raise ConfigError("transitions of tags cannot be learned from a teacher's probabilities in native steps")


def loss_terms(task: Task, network: NativeNetwork) -> LossTerms:
    """Return the loss of a task that `check_native` accepts."""
    terms = task.loss_terms(transitions="head.transitions" in network.plan.shapes)
    assert terms is not None, f"the loss of {task.name} is unknown to the native steps"
    return terms


def native_batch(batch: Inputs) -> NativeBatch:
    """Return a batch as native steps read it."""
    assert isinstance(batch, Batch), "labeled texts are collated into batches of words"
    return NativeBatch(batch.features, batch.weights, batch.index, batch.mask)
