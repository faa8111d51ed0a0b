"""What the training loop works on: batches of a step, and measures on dev."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from mixling.data.batches import Indices, Inputs, TextSet, collate, drop_words, training_batches
from mixling.errors import TrainingError
from mixling.models.model import Model
from mixling.tasks.base import Objective, Task
from mixling.text.labels import Targets
from mixling.training.predict import mean_loss, predict_logits

Forward = Callable[[Inputs], Tensor]


class TrainingData(ABC):
    """Examples by index, as batches, and the measures of a model on others.

    All that is random is a function of the seed and the number of the epoch or step.
    """

    objective: Objective

    @abstractmethod
    def __len__(self) -> int:
        """How many examples an epoch has."""

    @abstractmethod
    def epoch(self, number: int, batch_size: int, *, seed: int) -> list[Indices]:
        """The batches of one epoch."""

    @abstractmethod
    def batch(self, indices: Indices, chosen: Indices, *, seed: int, step: int) -> tuple[Inputs, Tensor, Tensor | None]:
        """What a model reads of some examples of a batch, their targets and their weights.

        Args:
            indices: the whole batch, over all processes.
            chosen: places in it.
        """

    @abstractmethod
    def measure(self, model: nn.Module, forward: Forward) -> tuple[dict[str, float], float]:
        """Measures on dev and the loss.

        Args:
            forward: the model, in the mode and precision that it is trained in, on its device.

        Raises:
            TrainingError: an answer is not finite.
        """

    def where(self, index: int) -> tuple[str, int] | None:
        """File and line of a training example, if they are known."""
        return None


@dataclass(frozen=True, kw_only=True)
class LabelledData(TrainingData):
    """Encoded texts and their targets; `weights` are the user's weights of the training examples."""

    objective: Task
    train: TextSet
    train_targets: Targets
    dev: TextSet
    dev_targets: Targets
    word_dropout: float = 0.0
    weights: npt.NDArray[np.float32] | None = None
    places: Callable[[int], tuple[str, int]] | None = None

    def __len__(self) -> int:
        return len(self.train)

    def epoch(self, number: int, batch_size: int, *, seed: int) -> list[Indices]:
        return training_batches(self.train.lengths, batch_size, seed=seed, epoch=number)

    def batch(self, indices: Indices, chosen: Indices, *, seed: int, step: int) -> tuple[Inputs, Tensor, Tensor | None]:
        words: Sequence[npt.NDArray[np.int32]] = self.train.words(indices)
        words = drop_words(words, self.word_dropout, seed=[seed, 1, step])  # of the whole batch, whoever works on it
        mine = indices[chosen]
        starts = self.train.starts(mine) if self.objective.per_word else None
        batch = collate([words[i] for i in chosen], self.train.encoder, starts)
        targets = self.objective.stack([self.train_targets[i] for i in mine], batch.num_answers)
        return batch, targets, None if self.weights is None else torch.from_numpy(self.weights[mine])

    def measure(self, model: nn.Module, forward: Forward) -> tuple[dict[str, float], float]:
        assert isinstance(model, Model)
        logits = predict_logits(model, self.dev)
        if not all(np.isfinite(row).all() for row in logits):
            raise TrainingError("an answer on dev is not finite")
        metrics = self.objective.evaluate(logits, self.dev_targets, tables=False)
        return metrics.numbers(), mean_loss(self.objective, logits, self.dev_targets)

    def where(self, index: int) -> tuple[str, int] | None:
        return None if self.places is None else self.places(index)
