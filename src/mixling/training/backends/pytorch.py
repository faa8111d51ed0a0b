"""Steps in PyTorch: any model, on any device, in several processes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from mixling.arrays import Float32
from mixling.data.batches import Inputs
from mixling.layers.precision import has_bfloat16
from mixling.models.tensors import array_of, restore_weights, tensor_of, tensors_of, weights_of
from mixling.training.backends.base import Backend, StepPart, StepSums
from mixling.training.backends.context import DistributedContext
from mixling.training.backends.optimizer import build_optimizer
from mixling.training.backends.processes import add_up, gathering
from mixling.training.state import NamedArrays, pack, unpack

if TYPE_CHECKING:
    from mixling.tasks.objective import Objective
    from mixling.training.config import TrainConfig
    from mixling.training.dataset_adapter import TrainingData


Forward = Callable[[Inputs], Tensor]


def device_of(config: TrainConfig) -> torch.device:
    """Return the device of a training."""
    cuda = config.device == "cuda" or (config.device == "auto" and torch.cuda.is_available())
    return torch.device("cuda" if cuda else "cpu")


def is_half(config: TrainConfig, device: torch.device) -> bool:
    """Return whether a training computes in bfloat16."""
    return config.precision == "bfloat16" or (config.precision == "auto" and has_bfloat16(device))


class TorchBackend(Backend):
    """A model with one of torch's optimizers.

    Args:
        model: moved to the device.
        objective: the loss.
        config: optimizer, device and precision.
        distributed: this process among all.
    """

    def __init__(
        self, model: nn.Module, objective: Objective, config: TrainConfig, distributed: DistributedContext
    ) -> None:
        self.device = device_of(config)
        self._objective = objective
        self._config = config
        self._distributed = distributed
        self._half = is_half(config, self.device)
        self._trained = model.to(self.device)
        self._parallel = self._trained if distributed.world == 1 else DistributedDataParallel(self._trained)
        self.optimizer = build_optimizer(self._trained, config.optim)

    def step(self, parts: Iterable[StepPart], *, rate: float, seed: int, signum: int) -> StepSums:
        for group in self.optimizer.param_groups:
            group["lr"] = rate * group["fraction"]
        loss, weight, signals, tokens = self._backward(parts, seed=seed, signum=signum).tolist()
        norm = self._scale(self._distributed.world / max(weight, 1e-12))
        sums = StepSums(loss=loss, weight=weight, norm=norm, signum=signals, tokens=int(tokens))
        if math.isfinite(sums.mean) and math.isfinite(norm):
            self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return sums

    def differentiate(self, parts: Iterable[StepPart], *, seed: int) -> None:
        self._backward(parts, seed=seed)
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
        sums = torch.tensor([0.0, 0.0, signum, 0.0], dtype=torch.float64, device=self.device)
        for part in parts:
            with gathering(self._parallel, last=part.last):
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
            logits: Tensor = self._parallel(*tensors_of(batch.arguments, self.device))
            return logits

    def _scale(self, factor: float) -> float:
        """Multiply the gradients by a factor and limit their norm, which is returned as it was before."""
        grads = [
            item.grad for group in self.optimizer.param_groups for item in group["params"] if item.grad is not None
        ]
        norm = factor * float(torch.linalg.vector_norm(torch.stack(torch._foreach_norm(grads))))
        limit = self._config.optim.clip_norm
        if limit is not None and norm > limit:
            factor *= limit / norm
        torch._foreach_mul_(grads, factor)
        return norm
