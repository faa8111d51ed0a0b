"""From a data set to what the training loop works on: batches of a step, and metrics and logits of validation texts."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from mixling.data.batches import Indices, Inputs, TextSet, collate, drop_words, length_batches, training_batches
from mixling.errors import TrainingError
from mixling.models.model import Model
from mixling.tasks.base import Objective, Task
from mixling.text.encoder import TextEncoder
from mixling.text.labels import Targets
from mixling.training.memory import release

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
    def evaluate(self, model: nn.Module, forward: Forward) -> tuple[dict[str, float], float]:
        """Measures on validation and the loss.

        Args:
            forward: the model, in the mode and precision that it is trained in, on its device.

        Raises:
            TrainingError: an answer is not finite.
        """

    def where(self, index: int) -> tuple[str, int] | None:
        """File and line of a training example, if they are known."""
        return None


@dataclass(frozen=True, kw_only=True)
class LabeledData(TrainingData):
    """Encoded texts and their targets; `weights` are the user's weights of the training examples."""

    objective: Task
    train: TextSet
    train_targets: Targets
    validation: TextSet
    validation_targets: Targets
    token_dropout: float = 0.0
    weights: npt.NDArray[np.float32] | None = None

    def __len__(self) -> int:
        return len(self.train)

    def epoch(self, number: int, batch_size: int, *, seed: int) -> list[Indices]:
        return training_batches(self.train.lengths, batch_size, seed=seed, epoch=number)

    def batch(self, indices: Indices, chosen: Indices, *, seed: int, step: int) -> tuple[Inputs, Tensor, Tensor | None]:
        words: Sequence[npt.NDArray[np.int32]] = self.train.words(indices)
        words = drop_words(words, self.token_dropout, seed=[seed, 1, step])  # of the whole batch, whoever works on it
        mine = indices[chosen]
        starts = self.train.starts(mine) if self.objective.per_word else None
        batch = collate([words[i] for i in chosen], self.train.encoder, starts)
        targets = self.objective.stack([self.train_targets[i] for i in mine], batch.num_answers)
        return batch, targets, None if self.weights is None else torch.from_numpy(self.weights[mine])

    def evaluate(self, model: nn.Module, forward: Forward) -> tuple[dict[str, float], float]:
        assert isinstance(model, Model)
        logits = predict_logits(model, self.validation)
        if not all(np.isfinite(row).all() for row in logits):
            raise TrainingError("an answer on validation is not finite")
        metrics = self.objective.evaluate(logits, self.validation_targets, tables=False)
        return metrics.numbers(), mean_loss(self.objective, logits, self.validation_targets)

    def where(self, index: int) -> tuple[str, int] | None:
        return self.train.dataset.where(index)


class EncodedTexts(Protocol):
    """Encoded texts by index, as `TextSet` has them."""

    encoder: TextEncoder
    lengths: npt.NDArray[np.int32]

    def __len__(self) -> int: ...

    def words(self, indices: Indices) -> list[npt.NDArray[np.int32]]:
        """Return texts as rows of the encoder's word table, valid until the next call of the encoder."""

    def starts(self, indices: Indices) -> list[npt.NDArray[np.int32]] | None:
        """Return the first token of each word of the texts, where only those are answered for."""


@torch.inference_mode()
def predict_logits(model: Model, texts: EncodedTexts, *, batch_size: int = 512) -> list[npt.NDArray[np.float32]]:
    """The logits of each text, (C,) or (N, C), as float32; the model is left in evaluation mode."""
    model.eval()
    device = next(model.parameters()).device
    out: list[npt.NDArray[np.float32]] = [np.empty(0, np.float32)] * len(texts)
    for indices in length_batches(texts.lengths, batch_size):
        words, starts = texts.words(indices), texts.starts(indices) if model.of_tokens else None
        batch = collate(words, texts.encoder, starts).to(device)
        logits = model(*batch.arguments).float().cpu().numpy()
        for row, index, item in zip(logits, indices, starts or words, strict=True):
            out[index] = row if row.ndim == 1 else row[: len(item)]
    release()
    return out


def mean_loss(task: Task, logits: list[npt.NDArray[np.float32]], targets: Targets) -> float:
    """The mean loss of the task over texts, without the weights of examples."""
    total, weight = 0.0, 0.0
    for first in range(0, len(logits), 4096):
        part = logits[first : first + 4096]
        width = max(len(row) for row in part)
        scores = torch.zeros(len(part), *((width,) if part[0].ndim == 2 else ()), part[0].shape[-1])
        for row, item in zip(scores, part, strict=True):
            row[: len(item)] = torch.from_numpy(item)
        gold = task.stack(targets[first : first + 4096], width)  # type: ignore[arg-type]
        losses, weights = task.loss(scores, gold, None)
        total, weight = total + float(losses), weight + float(weights)
    return total / max(weight, 1e-12)
