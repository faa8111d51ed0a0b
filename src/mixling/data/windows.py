"""Questions as the windows that a model reads, by index."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import cast

import numpy as np
import numpy.typing as npt

from mixling.data.batches import Indices
from mixling.data.dataset import Dataset
from mixling.text.answers import Found, find_answer
from mixling.text.encoder import TextEncoder
from mixling.text.windows import Passage, ReadingConfig, WindowEncoder

_CHUNK = 1024


class WindowSet:
    """The windows of questions, encoded once where memory allows (4 bytes a token), else each time.

    Attributes:
        targets: (W, 4), what each window should answer: `Passage.targets` of the first right answer.
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
        for index, (passage, answers) in enumerate(zip(self.passages(), questions.answers, strict=True)):
            answer = answers.first
            targets.append(passage.targets(answer))
            owners += [index] * len(passage.begins)
            self.unanswerable += answer is None
            self.truncated += passage.truncated
            self.inexact += answer is not None and not _is_exact(passage, answer)
            if self._kept is not None:
                self._kept += [passage.window(number) for number in range(len(passage.begins))]
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
        passages = dict(zip(owners.tolist(), self._windows.encode([self._pairs[i] for i in owners]), strict=True))
        places = [(int(self.owners[i]), int(i)) for i in indices]
        return [passages[owner].window(i - int(self._first[owner])) for owner, i in places]

    def starts(self, indices: Indices) -> None:
        """As of `TextSet`: all tokens have answers, not only the first ones of words."""
        return

    def passages(self) -> Iterator[Passage]:
        """The questions, encoded anew."""
        for first in range(0, len(self.questions), _CHUNK):
            yield from self._windows.encode(self._pairs[first : first + _CHUNK])

    def find(self, logits: Sequence[npt.NDArray[np.float32]]) -> list[Found]:
        """The answers to the questions from the logits (N, 2) of all windows."""
        edges = [*self._first.tolist(), len(self)]
        return [
            find_answer(passage, logits[edges[i] : edges[i + 1]], self.reading)
            for i, passage in enumerate(self.passages())
        ]

    def told(self, found: Sequence[Found], threshold: float | None) -> list[str]:
        """What was found, as text; empty for no answer."""
        return [item.answer(text[1], threshold).text for item, text in zip(found, self._pairs, strict=True)]

    def _forget_stale(self) -> None:
        """As of `TextSet`."""
        if self._generation != self.encoder.generation:
            self._kept = None


def _is_exact(passage: Passage, answer: tuple[int, int]) -> bool:
    found = passage.tokens(*answer)
    if found is None:
        return False
    return (int(passage.spans[found[0], 0]), int(passage.spans[found[1], 1])) == answer
