"""Training on questions: batches of windows, and measures of whole questions on dev."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor, nn

from mixling.data.batches import Batch, Indices, collate, drop_words, training_batches
from mixling.data.store import ExampleStore
from mixling.data.windows import WindowSet
from mixling.errors import TrainingError
from mixling.metrics.squad import AnswerMetrics, answer_report, choose_threshold
from mixling.models.model import Model
from mixling.tasks.base import Task
from mixling.text.answers import Answers, Found
from mixling.text.encoder import TextEncoder
from mixling.text.table import SEPARATOR
from mixling.text.windows import ReadingConfig
from mixling.training.data import Forward, TrainingData
from mixling.training.predict import mean_loss, predict_logits


@dataclass(frozen=True, kw_only=True)
class QuestionData(TrainingData):
    """Questions and contexts as windows, each of them an example."""

    objective: Task
    train: WindowSet
    dev: WindowSet
    word_dropout: float = 0.0

    def __len__(self) -> int:
        return len(self.train)

    def epoch(self, number: int, batch_size: int, *, seed: int) -> list[Indices]:
        return training_batches(self.train.lengths, batch_size, seed=seed, epoch=number)

    def batch(self, indices: Indices, chosen: Indices, *, seed: int, step: int) -> tuple[Batch, Tensor, Tensor | None]:
        targets = self.train.targets[indices]
        words = drop_words(self.train.words(indices), self.word_dropout, seed=[seed, 1, step])
        for row, place in zip(words, targets[:, 0], strict=True):
            row[place] = SEPARATOR  # which is no word: it parts the two texts, and is an answer
        batch = collate([words[i] for i in chosen], self.train.encoder)
        return batch, torch.from_numpy(targets[chosen]), None

    def measure(self, model: nn.Module, forward: Forward) -> tuple[dict[str, float], float]:
        assert isinstance(model, Model)
        logits = predict_logits(model, self.dev)
        if not all(np.isfinite(row).all() for row in logits):
            raise TrainingError("an answer on dev is not finite")
        found = self.dev.find(logits)
        metrics = self.report(found, self.settled(found))
        return metrics.numbers(), mean_loss(self.objective, logits, list(self.dev.targets))

    def where(self, index: int) -> tuple[str, int] | None:
        return self.train.questions.where(int(self.train.owners[index]))

    def settled(self, found: Sequence[Found]) -> ReadingConfig:
        """The configuration, with a threshold chosen on dev where training questions lack answers and none is given."""
        reading = self.train.reading
        if reading.threshold is not None or not self.train.unanswerable:
            return reading
        threshold = choose_threshold(found, self.dev.told(found, None), self._right)
        return reading.model_copy(update={"threshold": threshold})

    def report(self, found: Sequence[Found], reading: ReadingConfig) -> AnswerMetrics:
        """The measures of what was found for dev's questions."""
        return answer_report(self.dev.told(found, reading.threshold), self._right)

    @cached_property
    def _right(self) -> list[Answers]:
        return [self.dev.questions.answers(i) for i in range(len(self.dev.questions))]


def question_data(
    task: Task,
    train: ExampleStore,
    dev: ExampleStore,
    encoder: TextEncoder,
    reading: ReadingConfig,
    *,
    word_dropout: float,
    say: Callable[[str], None],
) -> QuestionData:
    """Questions as windows; what a user should know of them is said.

    Raises:
        ConfigError: the model reads too few tokens.
    """
    reading.check(encoder.config.max_len)
    of_train, of_dev = (WindowSet(rows, encoder, reading, keep=not rows.spooled) for rows in (train, dev))
    lacking = f", {of_train.unanswerable:,} have no answer" if of_train.unanswerable else ""
    say(f"{len(train):,} questions in {len(of_train):,} windows of up to {encoder.config.max_len} tokens{lacking}")
    if of_train.truncated:
        remedy = "--set reading.max_question=N reads more, at most half of max_len"
        say(f"{of_train.truncated:,} questions are cut; {remedy}")
    if of_train.inexact > 0.02 * len(train):
        finer = "; --set model.text.tokens=units is finer" if encoder.config.tokens == "words" else ""
        say(f"{of_train.inexact:,} answers begin or end within a token and cannot be given exactly{finer}")
    return QuestionData(objective=task, train=of_train, dev=of_dev, word_dropout=word_dropout)
