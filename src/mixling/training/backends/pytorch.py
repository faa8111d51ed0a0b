"""Steps in PyTorch: any model, on any device, in several processes."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from mixling.arrays import Float32
from mixling.data.batches import Inputs
from mixling.errors import ConfigError
from mixling.layers.precision import has_bfloat16
from mixling.models.tensors import array_of, restore_weights, tensor_of, tensors_of, weights_of
from mixling.training.backends.base import Backend, StepPart, StepSums
from mixling.training.backends.context import DistributedContext
from mixling.training.backends.device import compiles
from mixling.training.backends.optimizer import build_optimizer
from mixling.training.backends.processes import add_up, gathering
from mixling.training.state import NamedArrays, pack, unpack

if TYPE_CHECKING:
    from mixling.tasks.objective import Objective
    from mixling.training.config import TrainConfig
    from mixling.training.dataset_adapter import Targeted, TrainingData


Forward = Callable[[Inputs], Tensor]


def is_half(config: TrainConfig, device: torch.device) -> bool:
    """Return whether a training computes in bfloat16."""
    return config.precision == "bfloat16" or (config.precision == "auto" and has_bfloat16(device))


class TorchBackend(Backend):
    """A model with one of torch's optimizers.

    Args:
        model: moved to the device.
        objective: the loss.
        config: optimizer and precision.
        distributed: this process among all.
        device: see `device_of`.

    Attributes:
        late: whether the sums of a step are read after the next one has begun.
    """

    def __init__(
        self,
        model: nn.Module,
        objective: Objective,
        config: TrainConfig,
        distributed: DistributedContext,
        device: torch.device,
    ) -> None:
        self.device = device
        self.late = device.type == "cuda"
        self._objective = objective
        self._config = config
        self._distributed = distributed
        self._half = is_half(config, device)
        self._trained = model.to(device)
        self._parallel = self._trained if distributed.world == 1 else DistributedDataParallel(self._trained)
        self._called: Callable[..., Tensor] = self._parallel
        if compiles(self._trained, config, device):
            self._called = torch.compile(self._parallel, dynamic=True)  # the lengths of batches differ
        if config.deterministic:
            os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # without it torch refuses products on a GPU
        self.optimizer = build_optimizer(self._trained, config.optim)
        self._unread: Tensor | None = None
        self._copies = torch.cuda.Stream(device) if device.type == "cuda" else None

    def prepare(self, batch: Targeted) -> Targeted:
        if not self.late:
            return batch
        inputs, targets, weights = batch
        with nullcontext() if self._copies is None else torch.cuda.stream(self._copies):
            arguments = tensors_of(inputs.arguments, self.device)
            placed: list[Any] = [None if item is None else tensor_of(item, self.device) for item in (targets, weights)]
        return Placed(tuple(arguments), inputs.num_tokens), placed[0], placed[1]

    def step(self, parts: Iterable[StepPart], *, rate: float, seed: int, signum: int) -> StepSums | None:
        for group in self.optimizer.param_groups:
            group["lr"] = rate * group["fraction"]
        sums = self._backward(parts, seed=seed, signum=signum)
        numbers = torch.cat([sums, self._scale(sums[1])[None]])
        made = None if self.late else _read(numbers)
        if made is None or (math.isfinite(made.mean) and math.isfinite(made.norm)):
            self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        if self.late:
            made = self.last_sums()
            self._unread = numbers.to("cpu", non_blocking=True)
            if self._copies is not None:
                self._end = torch.cuda.Event()
                self._end.record()
        return made

    def last_sums(self) -> StepSums | None:
        numbers = self._unread
        self._unread = None
        if numbers is not None and self._copies is not None:
            self._end.synchronize()
        return None if numbers is None else _read(numbers)

    def differentiate(self, parts: Iterable[StepPart], *, seed: int) -> None:
        self._backward(parts, seed=seed).tolist()  # waits for the device
        self.optimizer.zero_grad(set_to_none=True)

    def evaluate(self, data: TrainingData) -> tuple[dict[str, float], float]:
        self._trained.eval()
        return data.evaluate(self)

    @property
    def module(self) -> nn.Module:
        """The module that is trained."""
        return self._trained

    @property
    def of_tokens(self) -> bool:
        """Whether there are logits for each token, or word; see `Evaluated`."""
        return bool(getattr(self._trained, "of_tokens", False))

    @property
    def transitions(self) -> Float32 | None:
        """The learned transitions of tags; see `Evaluated`."""
        found = self._trained.state_dict().get("head.transitions")
        return None if found is None else array_of(found)

    @torch.inference_mode()
    def logits(self, batch: Inputs) -> Float32:
        """Return the logits of a batch, computed with the precision of the training."""
        self._trained.eval()
        found: Float32 = self.forward(batch).float().cpu().numpy()
        return found

    def weights(self) -> NamedArrays:
        return weights_of(self._trained)

    def finish(self, weights: NamedArrays) -> None:
        restore_weights(self._trained, weights)
        self._trained.cpu()

    def state(self, best: NamedArrays) -> NamedArrays:
        slots = self.optimizer.state_dict()["state"]
        optimizer = {f"{number}/{name}": array_of(v) for number, values in slots.items() for name, v in values.items()}
        return pack(weights_of(self._trained), best, optimizer)

    def load(self, arrays: NamedArrays) -> NamedArrays:
        model, best, optimizer = unpack(arrays)
        restore_weights(self._trained, model)
        slots: dict[int, dict[str, Tensor]] = {}
        for name, value in optimizer.items():
            index, _, slot = name.partition("/")
            slots.setdefault(int(index), {})[slot] = torch.from_numpy(value)
        self.optimizer.load_state_dict({**self.optimizer.state_dict(), "state": slots})
        return best

    def _backward(self, parts: Iterable[StepPart], *, seed: int, signum: int = 0) -> Tensor:
        """Compute the gradients of the summed loss over the global batch, divided by the number of processes.

        Returns:
            The sums over all processes of losses, weights, signals and tokens, (4,).
        """
        self._reseed(seed)
        if not self._trained.training:
            self._parallel.train()
        sums = torch.zeros(4, dtype=torch.float64, device=self.device)
        sums[2].fill_(signum)
        for part in parts:
            self._await_copies(part)
            with gathering(self._parallel, last=part.last), _repeatable(wanted=self._config.deterministic):
                logits = self.forward(part.batch).float()
                weights = None if part.weights is None else tensor_of(part.weights, self.device)
                loss, weight = self._objective.loss(logits, tensor_of(part.targets, self.device), weights)
                loss.backward()
            sums[:2] += torch.stack([loss.detach(), weight.detach()])
            sums[3] += part.tokens
        return add_up(self._distributed, sums)

    def _reseed(self, seed: int) -> None:
        # torch.manual_seed formats the stack for each kind of accelerator that is not in use, a twentieth of a step.
        torch.default_generator.manual_seed(seed)
        if self.device.type == "cuda":
            torch.cuda.manual_seed(seed)

    def forward(self, batch: Inputs) -> Tensor:
        """Return the model's outputs, computed with the precision of the training."""
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self._half):
            logits: Tensor = self._called(*tensors_of(batch.arguments, self.device))
            return logits

    def _await_copies(self, part: StepPart) -> None:
        """Let the GPU wait for a part of a batch that another stream copies."""
        if self._copies is None:
            return
        stream = torch.cuda.current_stream(self.device)
        stream.wait_stream(self._copies)
        for item in (*part.batch.arguments, part.targets, part.weights):
            if isinstance(item, Tensor) and item.is_cuda:
                item.record_stream(stream)

    def _scale(self, weight: Tensor) -> Tensor:
        """Divide the gradients by the weight, limit their norm, and return the norm as it was before, in float64."""
        grads = [
            item.grad for group in self.optimizer.param_groups for item in group["params"] if item.grad is not None
        ]
        factor = self._distributed.world / weight.clamp(min=1e-12)
        norm: Tensor = factor * torch.linalg.vector_norm(torch.stack(torch._foreach_norm(grads)))
        limit = self._config.optim.clip_norm
        if limit is not None:
            factor = torch.where(norm > limit, factor * (limit / norm), factor)
        torch._foreach_mul_(grads, factor.to(grads[0].dtype))
        return norm


@dataclass(frozen=True, slots=True)
class Placed:
    """The inputs of a model on its device."""

    arguments: tuple[Tensor | None, ...]
    num_tokens: int


@contextmanager
def _repeatable(*, wanted: bool) -> Iterator[None]:
    """Take only operations that give the same bytes again, where that is wanted.

    Raises:
        ConfigError: the model has an operation without such a form on its device.
    """
    before = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
    if wanted:
        torch.use_deterministic_algorithms(True)
    try:
        yield
    except RuntimeError as error:
        if not wanted or "deterministic" not in str(error):
            raise
        raise ConfigError(
            f"train.deterministic: got true: {str(error).splitlines()[0]}; allowed with this model there: false"
        ) from error
    finally:
        if wanted:
            torch.use_deterministic_algorithms(before[0], warn_only=before[1])


def _read(numbers: Tensor) -> StepSums:
    loss, weight, signals, tokens, norm = numbers.tolist()
    return StepSums(loss=loss, weight=weight, norm=norm, signum=signals, tokens=int(tokens))
