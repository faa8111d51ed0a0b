"""Encode a question and its context as windows that fit the model: question, [SEP], a part of the context.

The characters of every token of the context are known, to convert between the characters and tokens of an answer.
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
from mixling.text.wordpiece import CONTINUATION
from mixling.text.words import word_spans

MAX_CONTEXT_CHARS = 1 << 20  # characters of a context, and of a question
MIN_WINDOW = 8  # tokens of a window
_WORD_STARTS = ("▁", "Ġ")  # marks at word starts in tokenizers other than WordPiece


class ReadingConfig(Config):
    """How the answer to a question is found in its context."""

    stride: int | None = Field(
        default=None,
        ge=1,
        description="tokens from one window of a long context to the next; None: 128, at most max_len / 4",
    )
    max_question: int = Field(
        default=64, ge=1, description="tokens of a question that are read, at most half of max_len"
    )
    max_answer: int = Field(default=30, ge=1, le=1_000, description="tokens of the longest answer")
    threshold: float | None = Field(
        default=None,
        allow_inf_nan=False,
        description="predict no answer if its score exceeds the best answer's by more than this; None: chosen on "
        "validation if some training questions have no answer, otherwise every question is answered",
    )

    def window(self, question: int, max_len: int) -> tuple[int, int]:
        """Return the tokens of context in a window with a question of this many tokens, and the stride in tokens."""
        space = max_len - 1 - question
        return space, min(self.stride or min(128, max_len // 4), space)

    def check(self, max_len: int) -> None:
        """Check that windows have room for a question and a context.

        Raises:
            ConfigError: `max_len` is too small.
        """
        if max_len < MIN_WINDOW:
            raise ConfigError(f"model.text.max_len: got {max_len}; questions need at least {MIN_WINDOW}")


@dataclass(frozen=True, slots=True)
class EncodedWindows:
    """A question and its context as a model reads them, in one or more windows.

    Attributes:
        question: (Q,) int32, rows of the encoder's word table.
        context: (T,) int32, rows of the encoder's word table; T may be 0.
        spans: (T, 2) int32, start and end characters of each token in the context.
        space: tokens of the context per window.
        begins: the first token of the context in each window; there is at least one window.
        truncated: whether tokens of the question (or of a context beyond a million characters) were dropped.
        generation: the generation of the word table in which the rows are valid.
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
        """The index of [SEP] in each window; the context follows it."""
        return len(self.question)

    def window(self, number: int) -> npt.NDArray[np.int32]:
        """Return the rows (N,) of a window."""
        begin = self.begins[number]
        part = self.context[begin : begin + self.space]
        return np.concatenate([self.question, np.array([SEPARATOR], np.int32), part])

    def tokens(self, start: int, end: int) -> tuple[int, int] | None:
        """Return the first and last token in characters `start` to `end` (exclusive) of the context; None: no token."""
        first = int(np.searchsorted(self.spans[:, 1], start, side="right"))
        last = int(np.searchsorted(self.spans[:, 0], end, side="left")) - 1
        return (first, last) if first <= last else None

    def targets(self, answer: tuple[int, int] | None) -> npt.NDArray[np.int64]:
        """Return the target of each window, (windows, 4): index of the separator, length, first and last answer token.

        Windows that do not contain the complete answer point to the separator, as do all windows if there is no answer
        (as BERT does on SQuAD with [CLS], which has no counterpart here).

        Args:
            answer: start and end characters.
        """
        tokens = None if answer is None else self.tokens(*answer)
        rows = []
        for begin in self.begins:
            end = min(begin + self.space, len(self.context))
            first = last = self.separator
            if tokens is not None and begin <= tokens[0] and tokens[1] < end:
                first, last = (self.separator + 1 + token - begin for token in tokens)
            rows.append((self.separator, self.separator + 1 + end - begin, first, last))
        return np.array(rows, np.int64)


class WindowEncoder:
    """Encodes pairs of question and context with a `TextEncoder`."""

    def __init__(self, encoder: TextEncoder, reading: ReadingConfig) -> None:
        self.encoder = encoder
        self.reading = reading
        self._generation = encoder.generation
        self._inner: dict[str, list[tuple[int, int]]] = {}  # the spans of a word's subwords within it

    def encode(self, pairs: Sequence[tuple[str, str]]) -> list[EncodedWindows]:
        """Encode pairs; contexts are read completely, questions up to `max_question` tokens."""
        words = []
        contexts = []
        cuts = []
        for pair in pairs:
            (question, context), cut = zip(*(clean(text, MAX_CONTEXT_CHARS) for text in pair), strict=True)
            of_question = self._words(question)
            of_context = self._words(context)
            sides = [[text[a:b] for a, b in spans] for text, spans in ((question, of_question), (context, of_context))]
            words += self.encoder.marked(*sides)
            contexts.append((context, of_context))
            cuts.append(any(cut))
        rows = self.encoder.spell(words)
        if self._generation != self.encoder.generation:
            self._inner = {}
            self._generation = self.encoder.generation
        return [
            self._encoding(rows[2 * i], rows[2 * i + 1], *contexts[i], truncated=cuts[i]) for i in range(len(contexts))
        ]

    def _words(self, text: str) -> list[tuple[int, int]]:
        """Return the spans of words; words that are too long are split, so that every character is read."""
        limit = self.encoder.config.max_word_chars
        contractions = self.encoder.config.contractions
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
        """Return the span of each of a word's subwords within it; an unknown word's span is the whole word."""
        spans = self._inner.get(word)
        if spans is None:
            normal = normalize(word, lowercase=self.encoder.config.lowercase)
            spans = [(0, len(word))] * count
            if len(normal) == len(word):
                spans = subword_spans(normal, self.encoder.vocabulary.subwords([normal])[0]) or spans
            assert len(spans) == count, f"{len(spans)} subwords of {word!r} instead of {count}"
            self._inner[word] = spans
        return spans


def subword_spans(word: str, subwords: Sequence[str]) -> list[tuple[int, int]] | None:
    """Return start and end of each subword in its word; a subword without characters has the span of the next one.

    None if the subwords do not spell the word.
    """
    ends = []
    end = 0
    for number, subword in enumerate(subwords):
        bare = subword.removeprefix(CONTINUATION) if number else subword.lstrip("".join(_WORD_STARTS))
        spelling = next((part for part in (bare, subword) if word.startswith(part, end)), None)
        if spelling is None:
            return None
        end += len(spelling)
        ends.append(end)
    if end != len(word):
        return None
    starts = [0, *ends[:-1]]
    for number in range(len(ends) - 2, -1, -1):
        if starts[number] == ends[number]:
            ends[number] = ends[number + 1]
    return list(zip(starts, ends, strict=True))
