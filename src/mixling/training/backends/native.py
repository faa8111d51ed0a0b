"""Steps in C: a batch's features in, its loss out, with gradients, clipping and AdamW in one call.

The same seed gives the same bytes with any number of threads.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from mixling.native import _steps
from mixling.networks.plan import NetworkPlan
from mixling.tasks.objective import LossKind, LossTerms
from mixling.training.backends.base import StepSums

if TYPE_CHECKING:
    from mixling.training.optim import OptimConfig

_REGISTERS = 256  # the widest to use, in floats, or a tile of a matrix unit; tests try narrower ones
KINDS: dict[LossKind, int] = {"softmax": 1, "sigmoid": 2, "squares": 3, "sequences": 4, "spans": 5}
_NORM_EPS = 1e-5

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class NativeBatch:
    """The bags of a batch's distinct words, and the word at each index of each text, as in `Batch`."""

    features: Array
    factors: Array | None
    index: Array
    mask: Array

    @property
    def arguments(self) -> tuple[Any, ...]:
        """The arguments of the native functions: sizes and arrays."""
        return *self.features.shape, *self.index.shape, self.features, self.factors, self.index, self.mask


class NativeSteps:
    """A network's parameters and their moments, and computations with them.

    Args:
        plan: where the parameters are.
        optim: AdamW; each step has its own learning rate.
        loss: the terms of the loss; None: only logits are computed.
        half: compute feed-forwards in bfloat16 where the processor has it.
        threads: number of threads; results do not depend on it.
    """

    def __init__(
        self, plan: NetworkPlan, optim: OptimConfig, loss: LossTerms | None, *, half: bool = False, threads: int = 1
    ) -> None:
        self.plan = plan
        self.threads = threads
        self.step_number = 0
        self._optim = optim
        self._loss = loss
        self._half = half
        self._parameters, self._gradients, self._first, self._second = (
            np.zeros(plan.size, np.float32) for _ in range(4)
        )

    def parameters(self) -> dict[str, npt.NDArray[np.float32]]:
        """Return the parameters by name; values written to them count in the next step."""
        return self.plan.views(self._parameters)

    def step(
        self, batch: NativeBatch, targets: Array, weights: Array | None, rate: float, *, seed: int = 0
    ) -> StepSums:
        """Make an optimizer step.

        Args:
            batch: the inputs.
            targets: ids, or probabilities or numbers, as the task stacks them.
            weights: (B,) of the examples; None: all are 1.
            rate: the learning rate; the table has a fraction of it.
            seed: of what the head does not read.
        """
        found = self._train(batch, targets, weights, rate, updates=True, seed=seed)
        if np.isfinite([found.loss, found.norm]).all():
            self.step_number += 1
        return found

    def gradients(
        self, batch: NativeBatch, targets: Array, weights: Array | None, *, seed: int = 0
    ) -> tuple[StepSums, dict[str, npt.NDArray[np.float32]]]:
        """Return the gradients of the mean loss by name, without a step."""
        found = self._train(batch, targets, weights, 0.0, updates=False, seed=seed)
        out = {name: view.copy() for name, view in self.plan.views(self._gradients).items()}
        return found, out

    def evaluate(self, batch: NativeBatch) -> npt.NDArray[np.float32]:
        """Return the logits (B, C) or (B, N, C)."""
        texts = batch.index.shape[0]
        outputs = self.plan.shapes["head.output.bias"][0]
        pooled = self.plan.numbers[7] != 0
        logits = np.empty((texts, outputs) if pooled else (*batch.index.shape, outputs), np.float32)
        _steps.evaluate(*self._common(batch), logits)
        return logits

    def state(self) -> dict[str, Array]:
        """Return the optimizer's state by name: a view of the moments, and the number of steps."""
        first = self.plan.views(self._first)
        second = self.plan.views(self._second)
        moments = {f"{name}/exp_avg": value for name, value in first.items()}
        moments |= {f"{name}/exp_avg_sq": value for name, value in second.items()}
        return {**moments, "step": np.array([self.step_number], np.int64)}

    def load(self, state: Mapping[str, Array]) -> None:
        """Continue from a state."""
        for name, value in self.state().items():
            value[...] = state[name]
        self.step_number = int(state["step"][0])

    def _common(self, batch: NativeBatch) -> tuple[Any, ...]:
        settings = _REGISTERS, self.threads, self._half, _NORM_EPS
        return *settings, self.plan.numbers, self._parameters, *batch.arguments

    def _train(
        self, batch: NativeBatch, targets: Array, weights: Array | None, rate: float, *, updates: bool, seed: int
    ) -> StepSums:
        optim = self._optim
        loss = self._loss
        assert loss is not None, "only logits are computed"
        soft = targets.dtype == np.float32
        width = 1 if self.plan.numbers[7] else targets.shape[1]
        smoothing = 0.0 if soft else loss.smoothing
        ids, values = (None, np.ascontiguousarray(targets)) if soft else (np.ascontiguousarray(targets, np.int64), None)
        weights = None if weights is None else np.ascontiguousarray(weights, np.float32)
        to = KINDS[loss.kind], smoothing, width, ids, values, weights, loss.class_weights
        by = updates, float(self.step_number + 1), optim.clip_norm or 0.0, seed % 2**32
        moments = optim.beta1, optim.beta2, optim.eps
        fraction = 1.0 if optim.embedding_lr is None else optim.embedding_lr
        table, matrices, vectors = self.plan.ends
        groups = np.array(
            [
                [0, table, rate * fraction, optim.weight_decay],
                [table, matrices, rate, optim.weight_decay],
                [matrices, vectors, rate, 0.0],
            ]
        )
        sums = np.zeros(3)
        arrays = self._gradients, self._first, self._second, groups, sums
        _steps.train(*self._common(batch), *to, *by, *moments, *arrays)
        loss_sum, weight, norm = sums.tolist()
        return StepSums(loss=loss_sum, weight=weight, norm=norm)
