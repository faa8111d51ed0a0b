"""Training on questions: their windows by index, batches of them, and metrics of whole validation questions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import cast

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from mixling.data.batches import Batch, Indices, collate, drop_words, training_batches
from mixling.data.dataset import Dataset
from mixling.errors import TrainingError
from mixling.metrics.squad import AnswerMetrics, answer_report, choose_threshold
from mixling.models.model import Model
from mixling.tasks.base import Task
from mixling.text.answers import Answers, Found, find_answer
from mixling.text.encoder import TextEncoder
from mixling.text.table import SEPARATOR
from mixling.text.windows import EncodedWindows, ReadingConfig, WindowEncoder
from mixling.training.dataset_adapter import Forward, TrainingData, mean_loss, predict_logits

_CHUNK = 1024  # questions that are encoded at a time


class WindowSet:
    """The windows of questions, encoded once where memory allows (4 bytes a token), else each time.

    Attributes:
        targets: (W, 4), what each window should answer: `EncodedWindows.targets` of the first right answer.
        owners: (W,) the question of each window.
        lengths: (W,) tokens.
        unanswerable: how many questions have no answer.
        truncated: how many questions were cut.
        inexact: how many first answers begin or end within a token, and so cannot be found exactly.
    """

    def __init__(self, questions: Dataset, encoder: TextEncoder, reading: ReadingConfig, *, keep: bool = True) -> None:
        self.questions, self.encoder, self.reading = questions, encoder, reading
        self._windows = WindowEncoder(encoder, reading)
        self._pairs = cast(Sequence[tuple[str, str]], questions.texts)
        self._generation = encoder.generation
        self._kept: list[npt.NDArray[np.int32]] | None = [] if keep else None
        targets, owners = [], []
        self.unanswerable = self.truncated = self.inexact = 0
        for index, (encoding, answers) in enumerate(zip(self.encodings(), questions.answers, strict=True)):
            answer = answers.first
            targets.append(encoding.targets(answer))
            owners += [index] * len(encoding.begins)
            self.unanswerable += answer is None
            self.truncated += encoding.truncated
            self.inexact += answer is not None and not _is_exact(encoding, answer)
            if self._kept is not None:
                self._kept += [encoding.window(number) for number in range(len(encoding.begins))]
        self.targets = np.concatenate(targets)
        self.owners = np.array(owners, np.int64)
        self.lengths = self.targets[:, 1].astype(np.int32)
        self._first = np.searchsorted(self.owners, np.arange(len(questions)))
        self._forget_stale()

    def __len__(self) -> int:
        return len(self.owners)

    def words(self, indices: Indices) -> list[npt.NDArray[np.int32]]:
        """The windows as rows of the encoder's word table, valid until the next call of the encoder."""
        self._forget_stale()
        if self._kept is not None:
            return [self._kept[i] for i in indices]
        owners = np.unique(self.owners[indices])
        encodings = dict(zip(owners.tolist(), self._windows.encode([self._pairs[i] for i in owners]), strict=True))
        locations = [(int(self.owners[i]), int(i)) for i in indices]
        return [encodings[owner].window(i - int(self._first[owner])) for owner, i in locations]

    def starts(self, indices: Indices) -> None:
        """As of `TextSet`: all tokens have answers, not only the first ones of words."""
        return

    def encodings(self) -> Iterator[EncodedWindows]:
        """The questions, encoded anew."""
        for first in range(0, len(self.questions), _CHUNK):
            yield from self._windows.encode(self._pairs[first : first + _CHUNK])

    def find(self, logits: Sequence[npt.NDArray[np.float32]]) -> list[Found]:
        """The answers to the questions from the logits (N, 2) of all windows."""
        edges = [*self._first.tolist(), len(self)]
        return [
            find_answer(encoding, logits[edges[i] : edges[i + 1]], self.reading)
            for i, encoding in enumerate(self.encodings())
        ]

    def reported(self, found: Sequence[Found], threshold: float | None) -> list[str]:
        """What was found, as text; empty for no answer."""
        return [item.answer(text[1], threshold).text for item, text in zip(found, self._pairs, strict=True)]

    def _forget_stale(self) -> None:
        """As of `TextSet`."""
        if self._generation != self.encoder.generation:
            self._kept = None


def _is_exact(encoding: EncodedWindows, answer: tuple[int, int]) -> bool:
    found = encoding.tokens(*answer)
    if found is None:
        return False
    return (int(encoding.spans[found[0], 0]), int(encoding.spans[found[1], 1])) == answer


@dataclass(frozen=True, kw_only=True)
class QuestionData(TrainingData):
    """Questions and contexts as windows, each of them an example."""

    objective: Task
    train: WindowSet
    validation: WindowSet
    token_dropout: float = 0.0

    def __len__(self) -> int:
        return len(self.train)

    def epoch(self, number: int, batch_size: int, *, seed: int) -> list[Indices]:
        return training_batches(self.train.lengths, batch_size, seed=seed, epoch=number)

    def batch(self, indices: Indices, chosen: Indices, *, seed: int, step: int) -> tuple[Batch, Tensor, Tensor | None]:
        targets = self.train.targets[indices]
        words = drop_words(self.train.words(indices), self.token_dropout, seed=[seed, 1, step])
        for row, location in zip(words, targets[:, 0], strict=True):
            row[location] = SEPARATOR  # which is no word: it parts the two texts, and is an answer
        batch = collate([words[i] for i in chosen], self.train.encoder)
        return batch, torch.from_numpy(targets[chosen]), None

    def evaluate(self, model: nn.Module, forward: Forward) -> tuple[dict[str, float], float]:
        assert isinstance(model, Model)
        logits = predict_logits(model, self.validation)
        if not all(np.isfinite(row).all() for row in logits):
            raise TrainingError("an answer on validation is not finite")
        found = self.validation.find(logits)
        metrics = self.report(found, self.resolved(found))
        return metrics.numbers(), mean_loss(self.objective, logits, list(self.validation.targets))

    def where(self, index: int) -> tuple[str, int] | None:
        return self.train.questions.where(int(self.train.owners[index]))

    def resolved(self, found: Sequence[Found]) -> ReadingConfig:
        """The configuration, with a threshold chosen on validation where training questions lack answers and none is
        given."""
        reading = self.train.reading
        if reading.threshold is not None or not self.train.unanswerable:
            return reading
        threshold = choose_threshold(found, self.validation.reported(found, None), self._right)
        return reading.model_copy(update={"threshold": threshold})

    def report(self, found: Sequence[Found], reading: ReadingConfig) -> AnswerMetrics:
        """The measures of what was found for validation's questions."""
        return answer_report(self.validation.reported(found, reading.threshold), self._right)

    @cached_property
    def _right(self) -> list[Answers]:
        return list(self.validation.questions.answers)


def question_data(
    task: Task,
    train: Dataset,
    validation: Dataset,
    encoder: TextEncoder,
    reading: ReadingConfig,
    *,
    token_dropout: float,
    log: Callable[[str], None],
) -> QuestionData:
    """Questions as windows; what a user should know of them is said.

    Raises:
        ConfigError: the model reads too few tokens.
    """
    reading.check(encoder.config.max_len)
    of_train, of_validation = (WindowSet(rows, encoder, reading, keep=not rows.spooled) for rows in (train, validation))
    lacking = f", {of_train.unanswerable:,} have no answer" if of_train.unanswerable else ""
    log(f"{len(train):,} questions in {len(of_train):,} windows of up to {encoder.config.max_len} tokens{lacking}")
    if of_train.truncated:
        remedy = "--set reading.max_question=N reads more, at most half of max_len"
        log(f"{of_train.truncated:,} questions are cut; {remedy}")
    if of_train.inexact > 0.02 * len(train):
        finer = "; --set model.text.tokens=subwords is finer" if encoder.config.tokens == "words" else ""
        log(f"{of_train.inexact:,} answers begin or end within a token and cannot be given exactly{finer}")
    return QuestionData(objective=task, train=of_train, validation=of_validation, token_dropout=token_dropout)
