"""What a training loop asks of the backend that computes its steps."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mixling.arrays import Float32
from mixling.training.state import NamedArrays

if TYPE_CHECKING:
    from mixling.data.batches import Inputs
    from mixling.training.dataset_adapter import Targeted, TrainingData


@dataclass(frozen=True, slots=True)
class StepPart:
    """Examples whose gradients are computed together: all examples of a step, or some.

    Attributes:
        batch: the inputs of the model.
        targets: as the objective stacks them.
        weights: (B,) of the examples; None: all are 1.
        tokens: number of tokens that count.
        last: whether no other part of the step follows.
    """

    batch: Inputs
    targets: Any
    weights: Float32 | None
    tokens: int
    last: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class StepSums:
    """Sums over the examples of a step, of all processes.

    Attributes:
        loss: of the weighted losses.
        weight: of the weights.
        norm: of the gradient of their quotient, before it is limited.
        signum: of the signals that processes have received.
        tokens: of the tokens.
    """

    loss: float
    weight: float
    norm: float
    signum: float = 0.0
    tokens: int = 0

    @property
    def mean(self) -> float:
        """The mean loss; 0 without weight."""
        return self.loss / self.weight if self.weight > 0 else 0.0


class Backend(ABC):
    """A model's parameters with their optimizer: it makes steps and evaluations."""

    def prepare(self, batch: Targeted) -> Targeted:
        """Return a batch where steps read it; called in the thread that makes batches, while the last step runs."""
        return batch

    @abstractmethod
    def step(self, parts: Iterable[StepPart], *, rate: float, seed: int, signum: int) -> StepSums | None:
        """Make an optimizer step; one whose loss or gradient is not finite changes nothing.

        A GPU is given the next step before it has finished one. The sums are then of the step before, None at the
        first; the step that follows one that is not finite is made in vain.

        Args:
            parts: all examples of this process.
            rate: the learning rate.
            seed: of the model's random numbers.
            signum: the signal that this process has received, or 0.
        """

    def last_sums(self) -> StepSums | None:
        """Wait for the last step, and return its sums, unless `step` did."""
        return None

    @abstractmethod
    def differentiate(self, parts: Iterable[StepPart], *, seed: int) -> None:
        """Compute the gradients of a step and forget them, to measure how long it takes."""

    @abstractmethod
    def evaluate(self, data: TrainingData) -> tuple[dict[str, float], float]:
        """Return the metrics and the loss on the validation data.

        Raises:
            TrainingError: an output is not finite.
        """

    @abstractmethod
    def weights(self) -> NamedArrays:
        """Return a copy of the model's weights."""

    @abstractmethod
    def finish(self, weights: NamedArrays) -> None:
        """End with these weights; the model that was given has them, on the CPU."""

    @abstractmethod
    def state(self, best: NamedArrays) -> NamedArrays:
        """Return the arrays of a checkpoint: of the model, of its best evaluation, of the optimizer."""

    @abstractmethod
    def load(self, arrays: NamedArrays) -> NamedArrays:
        """Continue from the arrays of a checkpoint; return the weights of the best evaluation."""
