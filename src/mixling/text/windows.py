"""A question and its context -> windows that a model can read: question, [SEP], a part of the context.

Every token of the context knows its characters, so that an answer's characters become tokens, and tokens characters.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from pydantic import Field

from mixling.config import Config
from mixling.errors import ConfigError
from mixling.text.clean import clean, normalize
from mixling.text.encoder import TextEncoder
from mixling.text.table import SEPARATOR
from mixling.text.vocabulary import CONTINUATION
from mixling.text.words import word_spans

MAX_CHARS = 1 << 20  # of a context, and of a question
MIN_LENGTH = 8  # tokens of a window
_WORD_STARTS = ("▁", "Ġ")  # marks of subwords in tokenizers other than WordPiece


class ReadingConfig(Config):
    """How the answer to a question is looked for in its context."""

    stride: int | None = Field(
        None,
        ge=1,
        description="tokens from one window of a long context to the next; None: 128, at most max_len / 4",
    )
    max_question: int = Field(64, ge=1, description="tokens of a question that are read, at most half of max_len")
    max_answer: int = Field(30, ge=1, le=1_000, description="tokens of the longest answer")
    threshold: float | None = Field(
        None,
        allow_inf_nan=False,
        description="no answer where its score is higher than the best answer's by more than this; None: chosen on "
        "validation "
        "where training questions lack answers, else every question has an answer",
    )

    def window(self, question: int, max_len: int) -> tuple[int, int]:
        """Of a window beside a question of so many tokens: tokens of the context, and from one window to the next."""
        space = max_len - 1 - question
        return space, min(self.stride or min(128, max_len // 4), space)

    def check(self, max_len: int) -> None:
        """Refuse windows that have no room.

        Raises:
            ConfigError: `max_len` is too small.
        """
        if max_len < MIN_LENGTH:
            raise ConfigError(f"model.text.max_len: got {max_len}; questions need at least {MIN_LENGTH}")


@dataclass(frozen=True, slots=True)
class EncodedWindows:
    """A question and its context as a model reads them, in one window or several.

    question: (Q,) int32, rows of the encoder's word table.
    context: (T,) int32, the same; T may be 0.
    spans: (T, 2) int32, start and end characters of each token in the context.
    space: tokens of the context that a window holds.
    begins: the first token of the context in each window; there is always one window.
    truncated: whether tokens of the question (or of a context beyond a million characters) were left out.
    generation: of the encoder's word table; the rows mean nothing in another.
    """

    question: npt.NDArray[np.int32]
    context: npt.NDArray[np.int32]
    spans: npt.NDArray[np.int32]
    space: int
    begins: tuple[int, ...]
    truncated: bool
    generation: int

    @property
    def separator(self) -> int:
        """The place of [SEP] in each window; the context begins after it."""
        return len(self.question)

    def window(self, number: int) -> npt.NDArray[np.int32]:
        """(N,) rows of the encoder's word table."""
        begin = self.begins[number]
        part = self.context[begin : begin + self.space]
        return np.concatenate([self.question, np.array([SEPARATOR], np.int32), part])

    def tokens(self, start: int, end: int) -> tuple[int, int] | None:
        """First and last token of the context that characters `start` to `end` (excluded) touch; None: white space."""
        first = int(np.searchsorted(self.spans[:, 1], start, side="right"))
        last = int(np.searchsorted(self.spans[:, 0], end, side="left")) - 1
        return (first, last) if first <= last else None

    def targets(self, answer: tuple[int, int] | None) -> npt.NDArray[np.int64]:
        """What each window should answer, (windows, 4): place of the separator, length, first and last token.

        Windows that do not hold all of the answer point at the separator, as those without one do (BERT's way with
        SQuAD; its [CLS] has no counterpart here).

        Args:
            answer: start and end characters.
        """
        found = None if answer is None else self.tokens(*answer)
        rows = []
        for begin in self.begins:
            end = min(begin + self.space, len(self.context))
            first = last = self.separator
            if found is not None and begin <= found[0] and found[1] < end:
                first, last = (self.separator + 1 + token - begin for token in found)
            rows.append((self.separator, self.separator + 1 + end - begin, first, last))
        return np.array(rows, np.int64)


class WindowEncoder:
    """Encodes pairs of question and context with the words of a `TextEncoder`."""

    def __init__(self, encoder: TextEncoder, reading: ReadingConfig) -> None:
        self.encoder, self.reading = encoder, reading
        self._generation = encoder.generation
        self._inner: dict[str, list[tuple[int, int]]] = {}  # where a word's subwords stand in it

    def encode(self, pairs: Sequence[tuple[str, str]]) -> list[EncodedWindows]:
        """Encode pairs; of a context nothing is left out, of a question what is beyond its share."""
        config = self.encoder.config
        words, locations, cuts = [], [], []
        for pair in pairs:
            (question, context), cut = zip(*(clean(text, MAX_CHARS) for text in pair), strict=True)
            of_question, of_context = self._words(question), self._words(context)
            sides = [[text[a:b] for a, b in spans] for text, spans in ((question, of_question), (context, of_context))]
            words += list(self.encoder.marked(*sides) if config.segments or config.overlap else sides)
            locations.append((context, of_context))
            cuts.append(any(cut))
        rows = self.encoder.spell(words)
        if self._generation != self.encoder.generation:
            self._inner, self._generation = {}, self.encoder.generation
        return [
            self._encoding(rows[2 * i], rows[2 * i + 1], *locations[i], truncated=cuts[i])
            for i in range(len(locations))
        ]

    def _words(self, text: str) -> list[tuple[int, int]]:
        """The words of a text; one that is longer than words may be is several, so that no character is unread."""
        limit, contractions = self.encoder.config.max_word_chars, self.encoder.config.contractions
        return [
            (first, min(first + limit, end))
            for start, end in word_spans(text, len(text), contractions=contractions)
            for first in range(start, end, limit)
        ]

    def _encoding(
        self,
        question: list[list[int]],
        context: list[list[int]],
        text: str,
        words: list[tuple[int, int]],
        *,
        truncated: bool,
    ) -> EncodedWindows:
        max_len = self.encoder.config.max_len
        asked = list(itertools.chain(*question))
        most = min(self.reading.max_question, max_len // 2)
        rows = list(itertools.chain(*context))
        spans: list[tuple[int, int]] = []
        for (start, end), spelled in zip(words, context, strict=True):
            if len(spelled) == 1:
                spans.append((start, end))
            else:
                spans += [(start + a, start + b) for a, b in self._subwords(text[start:end], len(spelled))]
        space, step = self.reading.window(min(len(asked), most), max_len)
        begins = (0, *range(step, max(len(rows) - space, 0) + step, step))
        return EncodedWindows(
            question=np.array(asked[:most], np.int32),
            context=np.array(rows, np.int32),
            spans=np.array(spans, np.int32).reshape(-1, 2),
            space=space,
            begins=begins,
            truncated=truncated or len(asked) > most,
            generation=self.encoder.generation,
        )

    def _subwords(self, word: str, count: int) -> list[tuple[int, int]]:
        """Where each of a word's subwords stands in it; all of them everywhere if it cannot be told."""
        found = self._inner.get(word)
        if found is None:
            normal = normalize(word, lowercase=self.encoder.config.lowercase)
            found = [(0, len(word))] * count
            if len(normal) == len(word):
                found = subword_spans(normal, self.encoder.vocabulary.subwords([normal])[0]) or found
            assert len(found) == count, f"{len(found)} subwords of {word!r} instead of {count}"
            self._inner[word] = found
        return found


def subword_spans(word: str, subwords: Sequence[str]) -> list[tuple[int, int]] | None:
    """Start and end of each unit in its word; a unit without characters stands where the next one does.

    None where the subwords do not spell the word.
    """
    ends = []
    location = 0
    for number, subword in enumerate(subwords):
        shorter = [subword.removeprefix(CONTINUATION)] if number else [subword.lstrip("".join(_WORD_STARTS)), subword]
        subword = next((subword for subword in (*shorter, subword) if word.startswith(subword, location)), None)
        if subword is None:
            return None
        location += len(subword)
        ends.append(location)
    if location != len(word):
        return None
    starts = [0, *ends[:-1]]
    for number in range(len(ends) - 2, -1, -1):
        if starts[number] == ends[number]:
            ends[number] = ends[number + 1]
    return list(zip(starts, ends, strict=True))
