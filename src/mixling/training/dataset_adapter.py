"""Training data as the training loop uses it: batches of a step, and the evaluation on validation data."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from mixling.answers.labels import Targets
from mixling.arrays import Float32
from mixling.data.batches import Batch, Indices, Inputs, TextSet, collate, drop_words, length_batches, training_batches
from mixling.errors import TrainingError
from mixling.tasks.base import Task
from mixling.tasks.objective import Objective
from mixling.text.encoder import TextEncoder
from mixling.training.augmentation import Augmenter, BatchPart
from mixling.training.long_texts import LongTexts, find_long_texts
from mixling.training.losses import loss_sums
from mixling.training.memory import Heap

# Validation examples that are evaluated during training; with them the error of an accuracy is at most 0.7 points.
MAX_EVALUATED = 5_000
# Fewer of long texts, within a number of words: all of IMDB's would take as long as training. Most choices of the best
# weights are the same.
_EVALUATED_WORDS = 250_000
_MIN_EVALUATED = 1_000

Targeted = tuple[Inputs, Any, Float32 | None]  # inputs, targets and weights


class Evaluated(Protocol):
    """What computes the logits of an evaluation: a network, or the backend that trains it."""

    @property
    def of_tokens(self) -> bool:
        """Whether there are logits for each token, or word."""

    @property
    def transitions(self) -> Float32 | None:
        """The score (C, C) of each tag after each other one, if the model has learned them."""

    def logits(self, batch: Batch) -> Float32:
        """Return the logits of a batch, (B, C) or (B, N, C)."""


class TrainingData(ABC):
    """Batches of training examples, and the evaluation of a model on validation examples.

    All randomness is a function of the seed and the number of the epoch or step.
    """

    objective: Objective

    @abstractmethod
    def __len__(self) -> int:
        """Return the number of training examples."""

    @abstractmethod
    def epoch(self, number: int, batch_size: int, *, seed: int) -> list[Indices]:
        """Return the batches of an epoch as indices of examples."""

    @abstractmethod
    def batch(self, indices: Indices, chosen: Indices, *, seed: int, step: int) -> Targeted:
        """Return the model's inputs, the targets and the weights of some examples of a batch.

        Args:
            indices: the examples of the whole batch, over all processes.
            chosen: the indices in `indices` of the examples to return.
        """

    @abstractmethod
    def evaluate(self, model: Any) -> tuple[dict[str, float], float]:
        """Return the metrics and the loss of a model on the validation examples.

        Args:
            model: the backend that trains it; of labeled texts whatever has their logits, see `Evaluated`.

        Raises:
            TrainingError: an output is not finite.
        """

    def where(self, index: int) -> tuple[str, int] | None:
        """Return the file and line of a training example, if they are known."""
        return None

    @property
    def num_evaluated(self) -> int:
        """The number of validation examples of an evaluation; 0 if it cannot be compared with the others."""
        return 0


@dataclass(frozen=True, kw_only=True)
class LabeledData(TrainingData):
    """Encoded texts and their targets.

    Attributes:
        validation_task: the task that `validation_targets` belong to: also with labels of validation examples that
            training never saw.
        augmenter: changes the training texts each time that they are read; None: they stay as they are.
        weights: the user's weights of the training examples, (examples,).
    """

    objective: Task
    train: TextSet
    train_targets: Targets
    validation: TextSet
    validation_task: Task
    validation_targets: Targets
    token_dropout: float = 0.0
    augmenter: Augmenter | None = None
    weights: npt.NDArray[np.float32] | None = None

    def __len__(self) -> int:
        return len(self.train)

    def epoch(self, number: int, batch_size: int, *, seed: int) -> list[Indices]:
        return training_batches(self.train.lengths, batch_size, seed=seed, epoch=number)

    def batch(self, indices: Indices, chosen: Indices, *, seed: int, step: int) -> Targeted:
        mine = indices[chosen]
        size = len(indices)
        encoder = self.train.encoder
        words, starts = self._encoded(mine, chosen, size, seed=seed, step=step)
        words = drop_words(words, self.token_dropout, chosen=chosen, size=size, seed=[seed, 1, step])
        encoder = encoder if self.augmenter is None else self.augmenter.encoder
        batch = collate(words, encoder, starts if self.objective.per_word else None)
        targets = self.objective.stack(_chosen(self.train_targets, mine), batch.num_answers)
        return batch, targets, None if self.weights is None else self.weights[mine]

    def _encoded(
        self, mine: Indices, chosen: Indices, size: int, *, seed: int, step: int
    ) -> tuple[list[npt.NDArray[np.int32]], list[npt.NDArray[np.int32]] | None]:
        """Return training texts as rows of an encoder's word table, and the first tokens of words where they count."""
        if self.augmenter is None:
            return self.train.words(mine), self.train.starts(mine)
        encoder = self.train.encoder
        pairs = self.train.dataset.schema.pairs
        part = BatchPart(chosen, size, seed, step)
        if self.train.is_kept and encoder.config.tokens == "words" and not pairs:
            words = self.train.words(mine)
            return self.augmenter.change(words, encoder, part), None
        texts = [self.train.dataset.texts[i] for i in mine]
        if pairs and encoder.config.tokens == "words":
            return self.augmenter.change_several(texts, encoder, part), None
        encoded = self.augmenter.encode(texts, part)
        starts = [item.starts for item in encoded if item.starts is not None]
        return [item.words for item in encoded], starts or None

    def evaluate(self, model: Evaluated) -> tuple[dict[str, float], float]:
        chosen = self._evaluated
        targets = self.validation_targets
        logits = self.validation_logits(model, chosen)
        if not all(np.isfinite(row).all() for row in logits):
            raise TrainingError("an output on validation data is not finite")
        if chosen is not None:
            targets = _chosen(targets, chosen)
        metrics = self.validation_task.evaluate(logits, targets, tables=False)
        return metrics.numbers(), mean_loss(self.objective, logits, targets)

    def validation_logits(self, model: Evaluated, chosen: Indices | None = None) -> list[npt.NDArray[np.float32]]:
        """Return the logits of the validation examples, as `predict_logits` does, with long texts read to the end.

        The tasks then have the model's transitions, if it has any.
        """
        logits = predict_logits(model, self.validation, chosen)
        if (transitions := model.transitions) is not None:
            self.objective.transitions = self.validation_task.transitions = transitions
        return self._long.complete(
            logits, chosen, self.objective, lambda windows, numbers: predict_logits(model, windows, numbers)
        )

    @cached_property
    def _long(self) -> LongTexts:
        return find_long_texts(self.validation, self.objective)

    @property
    def num_evaluated(self) -> int:
        """The number of validation examples that are evaluated during training."""
        return len(self.validation) if self._evaluated is None else len(self._evaluated)

    @cached_property
    def _evaluated(self) -> Indices | None:
        """The examples that are evaluated during training, the same ones each time; None: all."""
        most = MAX_EVALUATED
        words = int(self.validation.lengths.sum())
        if self.validation.is_kept and words > _EVALUATED_WORDS:  # of others the lengths are not known
            most = min(most, max(len(self.validation) * _EVALUATED_WORDS // words, _MIN_EVALUATED))
        if len(self.validation) <= most:
            return None
        return np.sort(np.random.default_rng(0).permutation(len(self.validation))[:most])

    def where(self, index: int) -> tuple[str, int] | None:
        return self.train.dataset.where(index)


def _chosen(targets: Targets, indices: Indices) -> Targets:
    return targets[indices] if isinstance(targets, np.ndarray) else [targets[i] for i in indices]


class EncodedTexts(Protocol):
    """Encoded texts by index, such as `TextSet`."""

    encoder: TextEncoder
    lengths: npt.NDArray[np.int32]

    def __len__(self) -> int: ...

    def words(self, indices: Indices) -> list[npt.NDArray[np.int32]]:
        """Return texts as rows of the encoder's word table, valid until the next call of the encoder."""

    def starts(self, indices: Indices) -> list[npt.NDArray[np.int32]] | None:
        """Return the first token of each word of the texts; None if all tokens have outputs."""


def predict_logits(
    model: Evaluated, texts: EncodedTexts, chosen: Indices | None = None, *, batch_size: int = 512
) -> list[npt.NDArray[np.float32]]:
    """Return the logits of each text, (C,) or (N, C), as float32.

    Args:
        chosen: only of the texts with these indices, in this order.
    """
    chosen = np.arange(len(texts)) if chosen is None else chosen
    out: list[npt.NDArray[np.float32]] = [np.empty(0, np.float32)] * len(chosen)
    heap = Heap()
    for indices in length_batches(texts.lengths[chosen], batch_size):
        read = chosen[indices]
        words = texts.words(read)
        starts = texts.starts(read) if model.of_tokens else None
        logits = model.logits(collate(words, texts.encoder, starts))
        for row, index, item in zip(logits, indices, starts or words, strict=True):
            out[index] = row if row.ndim == 1 else row[: len(item)]
        heap.limit()
    heap.release()
    return out


def mean_loss(task: Task, logits: list[npt.NDArray[np.float32]], targets: Targets) -> float:
    """Return the mean loss of the task over texts, without weights of examples; unseen labels have no loss."""
    total = 0.0
    weight = 0.0
    targets, fractions = task.learnable(targets)
    words = np.array([len(row) if row.ndim == 2 else 1 for row in logits], np.int32)
    for indices in length_batches(words, 512):
        part = [logits[i] for i in indices]
        width = int(words[indices].max())
        scores = np.zeros((len(part), *((width,) if part[0].ndim == 2 else ()), part[0].shape[-1]), np.float32)
        for row, item in zip(scores, part, strict=True):
            row[: len(item)] = item
        gold = task.stack(_chosen(targets, indices), width)
        terms = task.loss_terms(transitions=task.transitions is not None)
        assert terms is not None, f"the loss of {task.name} is not known as numbers"
        losses, weights = loss_sums(
            terms,
            scores, gold, None if fractions is None else fractions[indices], task.transitions,
        )  # fmt: skip
        total += losses
        weight += weights
    return total / max(weight, 1e-12)
