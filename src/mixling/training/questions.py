"""Training data of question answering: windows as examples, and metrics of validation questions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import cast

import numpy as np
import numpy.typing as npt

from mixling.answers.questions import Answers, Found, find_answer
from mixling.data.batches import Indices, collate, drop_words, training_batches
from mixling.data.dataset import Dataset
from mixling.errors import TrainingError
from mixling.metrics.squad import answer_report, choose_threshold
from mixling.tasks.base import Task
from mixling.text.encoder import TextEncoder
from mixling.text.table import SEPARATOR
from mixling.text.windows import EncodedWindows, ReadingConfig, WindowEncoder
from mixling.training.dataset_adapter import Evaluated, Targeted, TrainingData, mean_loss, predict_logits

_CHUNK = 1024  # questions to encode at a time


class WindowSet:
    """The windows of questions.

    Args:
        keep: keep the encoded windows (4 bytes per token) instead of encoding them each time.

    Attributes:
        targets: (windows, 4), the target of each window: `EncodedWindows.targets` of the first answer.
        owners: (windows,), the question of each window.
        lengths: (windows,), numbers of tokens.
        unanswerable: number of questions without an answer.
        truncated: number of questions that were truncated.
        inexact: number of first answers that begin or end within a token, and cannot be predicted exactly.
    """

    def __init__(self, questions: Dataset, encoder: TextEncoder, reading: ReadingConfig, *, keep: bool = True) -> None:
        self.questions = questions
        self.encoder = encoder
        self.reading = reading
        self._windows = WindowEncoder(encoder, reading)
        self._pairs = cast(Sequence[tuple[str, str]], questions.texts)
        self._generation = encoder.generation
        self._kept: list[npt.NDArray[np.int32]] | None = [] if keep else None
        targets = []
        owners = []
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
        """Return windows as rows of the encoder's word table, valid until the next call of the encoder."""
        self._forget_stale()
        if self._kept is not None:
            return [self._kept[i] for i in indices]
        owners = np.unique(self.owners[indices])
        encodings = dict(zip(owners.tolist(), self._windows.encode([self._pairs[i] for i in owners]), strict=True))
        pairs = [(int(self.owners[i]), int(i)) for i in indices]
        return [encodings[owner].window(i - int(self._first[owner])) for owner, i in pairs]

    def starts(self, indices: Indices) -> None:
        """Return None, since all tokens have outputs, not only the first ones of words."""
        return

    def encodings(self) -> Iterator[EncodedWindows]:
        """Encode the questions anew."""
        for first in range(0, len(self.questions), _CHUNK):
            yield from self._windows.encode(self._pairs[first : first + _CHUNK])

    def find(self, logits: Sequence[npt.NDArray[np.float32]]) -> list[Found]:
        """Return the best answer and the scores of each question from the logits (N, 2) of all windows."""
        edges = [*self._first.tolist(), len(self)]
        return [
            find_answer(encoding, logits[edges[i] : edges[i + 1]], self.reading)
            for i, encoding in enumerate(self.encodings())
        ]

    def answers(self, found: Sequence[Found], threshold: float | None) -> list[str]:
        """Return the predicted answers as text; empty for no answer."""
        return [item.answer(text[1], threshold).text for item, text in zip(found, self._pairs, strict=True)]

    def _forget_stale(self) -> None:
        if self._generation != self.encoder.generation:
            self._kept = None


def _is_exact(encoding: EncodedWindows, answer: tuple[int, int]) -> bool:
    found = encoding.tokens(*answer)
    if found is None:
        return False
    return (int(encoding.spans[found[0], 0]), int(encoding.spans[found[1], 1])) == answer


@dataclass(frozen=True, kw_only=True)
class QuestionData(TrainingData):
    """Windows of questions and contexts, each of them an example."""

    objective: Task
    train: WindowSet
    validation: WindowSet
    token_dropout: float = 0.0

    def __len__(self) -> int:
        return len(self.train)

    def epoch(self, number: int, batch_size: int, *, seed: int) -> list[Indices]:
        return training_batches(self.train.lengths, batch_size, seed=seed, epoch=number)

    def batch(self, indices: Indices, chosen: Indices, *, seed: int, step: int) -> Targeted:
        targets = self.train.targets[indices[chosen]]
        words = drop_words(
            self.train.words(indices[chosen]), self.token_dropout,
            chosen=chosen, size=len(indices), seed=[seed, 1, step],
        )  # fmt: skip
        for row, separator in zip(words, targets[:, 0], strict=True):
            row[separator] = SEPARATOR  # must not be dropped: it separates the texts and represents "no answer"
        return collate(words, self.train.encoder), targets, None

    def evaluate(self, model: Evaluated) -> tuple[dict[str, float], float]:
        logits = predict_logits(model, self.validation)
        if not all(np.isfinite(row).all() for row in logits):
            raise TrainingError("an output on validation data is not finite")
        found = self.validation.find(logits)
        metrics = answer_report(self.validation.answers(found, self.resolved(found).threshold), self._targets)
        return metrics.numbers(), mean_loss(self.objective, logits, list(self.validation.targets))

    def where(self, index: int) -> tuple[str, int] | None:
        return self.train.questions.where(int(self.train.owners[index]))

    def resolved(self, found: Sequence[Found]) -> ReadingConfig:
        """Return the configuration with a threshold.

        It is chosen on the validation questions if the user gave none and some training questions have no answer.
        """
        reading = self.train.reading
        if reading.threshold is not None or not self.train.unanswerable:
            return reading
        threshold = choose_threshold(found, self.validation.answers(found, None), self._targets)
        return reading.model_copy(update={"threshold": threshold})

    @cached_property
    def _targets(self) -> list[Answers]:
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
    """Encode questions as windows, and log their number and problems.

    Raises:
        ConfigError: the model reads too few tokens.
    """
    reading.check(encoder.config.max_len)
    windows, held_out = (WindowSet(data, encoder, reading, keep=not data.spooled) for data in (train, validation))
    without = f", {windows.unanswerable:,} have no answer" if windows.unanswerable else ""
    log(f"{len(train):,} questions in {len(windows):,} windows of up to {encoder.config.max_len} tokens{without}")
    if windows.truncated:
        remedy = "--set reading.max_question=N reads more, at most half of max_len"
        log(f"{windows.truncated:,} questions are truncated; {remedy}")
    if windows.inexact > 0.02 * len(train):
        finer = "; --set model.text.tokens=subwords is finer" if encoder.config.tokens == "words" else ""
        log(f"{windows.inexact:,} answers begin or end within a token and cannot be predicted exactly{finer}")
    return QuestionData(objective=task, train=windows, validation=held_out, token_dropout=token_dropout)
