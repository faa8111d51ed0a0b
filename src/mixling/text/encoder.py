"""Encode texts as rows of a word table, whose embedding bags the model's embedding layer sums."""

from __future__ import annotations

import itertools
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeGuard

import numpy as np
import numpy.typing as npt

from mixling.errors import DataError
from mixling.text.clean import clean, lower, normalize
from mixling.text.config import TextConfig
from mixling.text.several import LoweredWords, fit_texts, join_texts
from mixling.text.splitting import SplitTexts, StringSplitter
from mixling.text.table import EMPTY, SEPARATOR, SHARED, SPECIAL, Word, WordTable, plain_word, text_mark
from mixling.text.vocabulary import Vocabulary
from mixling.text.words import split_words, word_spans

# One text, several that belong together, or the words of a sentence that is already split.
Text = str | tuple[str, ...] | list[str]
_TOGETHER = 4096  # texts that are split at a time; a word of several is normalized once
_MANY = 64  # texts from which on splitting them together is faster
# Replaces the words of a text by as many others.
Change = Callable[[Sequence[str]], list[str]]


def text_size(text: Text | None) -> int:
    """Return the number of characters of a text."""
    return len(text) if isinstance(text, str) else sum(map(len, text or ()))


@dataclass(frozen=True, slots=True)
class Encoded:
    """One text as the model reads it.

    Attributes:
        words: (N,) int32, rows of the encoder's word table; a text without words has one row.
        offsets: start and end characters of each word in the text (for a list: in its words joined by single spaces);
            None for several texts and unless requested.
        truncated: whether words, or characters of a word, were dropped.
        generation: the generation of the word table in which the rows are valid.
        starts: (W,) int32, the first token of each word; None if tokens are words.
    """

    words: npt.NDArray[np.int32]
    offsets: list[tuple[int, int]] | None
    truncated: bool
    generation: int
    starts: npt.NDArray[np.int32] | None = None

    @property
    def is_empty(self) -> bool:
        """Whether the text, or none of several, had words."""
        first = int(self.words[0])
        return (first == EMPTY and len(self.words) == 1) or (first == SEPARATOR and bool((self.words == first).all()))

    def of_words(self, outputs: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Select the outputs of words (W, ...) from the outputs of tokens (N, ...): their first subwords'."""
        return outputs if self.starts is None else outputs[self.starts]


class TextSplitter:
    """Splits texts into words as an encoder with this configuration does."""

    _split_texts: dict[str, tuple[list[str], bool]] | None = None  # a copied encoder has none
    _room = 0

    def __init__(self, config: TextConfig) -> None:
        self.config = config

    def __call__(self, texts: Sequence[Text]) -> SplitTexts:
        """Return the words of texts."""
        if are_strings(texts):
            return self.split_strings(texts)
        if (number := number_of_texts(texts)) > 1:
            split = self.split_strings(list(itertools.chain.from_iterable(texts)))
            joined = join_texts(split.index, split.lengths, number, LoweredWords().of(split.words), self.config)
            return joined.split(split.words, np.any(split.cut.reshape(-1, number), axis=1, keepdims=True)[:, 0])
        return SplitTexts.of((words, cut) for words, _, cut in (self._split(text, False) for text in texts))

    @property
    def split_strings(self) -> StringSplitter:
        """What splits single texts, or each of several."""
        config = self.config
        return StringSplitter(config.contractions, config.max_chars, config.max_len, config.max_word_chars)

    def keep_splits(self, max_words: int) -> None:
        """Remember the words of texts that are encoded again and again, up to `max_words` in all."""
        self._split_texts = {}
        self._room = max_words

    def _split(
        self, text: Text, offsets: bool, change: Change | None = None
    ) -> tuple[Sequence[Word], list[tuple[int, int]] | None, bool]:
        config = self.config
        if isinstance(text, str) and not offsets:
            words, cut = self._split_once(text)
            words = words if change is None else change(words)
            return words, None, cut or self._too_long(words)
        if isinstance(text, str):
            text, cut = clean(text, config.max_chars)
            spans = word_spans(text, config.max_len + 1, contractions=config.contractions)
            words = [text[start:end] for start, end in spans]
            if len(words) > config.max_len:
                words = words[: config.max_len]
                spans = spans[: config.max_len]
                cut = True
            words = words if change is None else change(words)
            return words, spans, cut or self._too_long(words)
        if isinstance(text, tuple):
            return self._split_several(text, change)
        kept = text[: config.max_len]
        words = [clean(word, config.max_chars)[0] for word in kept]
        words = words if change is None else change(words)
        cut = len(text) > config.max_len or self._too_long(words)
        if not offsets:
            return words, None, cut
        ends = np.cumsum([len(word) + 1 for word in kept]).tolist()  # in the uncleaned words joined by spaces
        return words, [(end - 1 - len(word), end - 1) for word, end in zip(kept, ends, strict=True)], cut

    def _split_once(self, text: str) -> tuple[list[str], bool]:
        """Return the first `max_len` words of a text, and whether anything was cut."""
        known = None if self._split_texts is None else self._split_texts.get(text)
        if known is not None:
            return known
        cleaned, cut = clean(text, self.config.max_chars)
        words = split_words(cleaned, contractions=self.config.contractions)
        cut = cut or len(words) > self.config.max_len
        words = words[: self.config.max_len]
        if self._split_texts is not None and self._room >= len(words):
            words = [sys.intern(word) for word in words]  # equal words share their memory
            self._room -= len(words)
            self._split_texts[text] = words, cut
        return words, cut

    def _split_several(self, texts: tuple[str, ...], change: Change | None) -> tuple[list[Word], None, bool]:
        """Join texts by separators; where they are too long, the longest lose words at their end."""
        parts, _, cuts = zip(*(self._split(text, False, change) for text in texts), strict=True)
        parts = tuple(self.marked(*parts))
        shortened = False
        if self.config.tokens == "words":
            parts, shortened = fit_parts(parts, self.config.max_len)
        return join_parts(parts, SPECIAL[SEPARATOR]), None, any(cuts) or shortened

    def marked(self, *texts: Sequence[Word]) -> list[list[Word]]:
        """Return the words of texts that belong together with their marks; a mark of 0 is omitted."""
        plain = [[plain_word(word) for word in text] for text in texts]
        times: Counter[str] = Counter()
        if self.config.overlap:
            times.update(itertools.chain.from_iterable({lower(word) for word in text} for text in plain))

        def mark(word: str, number: int) -> Word:
            marks = (SHARED if times[lower(word)] > 1 else 0) | (text_mark(number) if self.config.segments else 0)
            return (word, marks) if marks else word

        return [[mark(word, number) for word in text] for number, text in enumerate(plain)]

    def _too_long(self, words: Sequence[str]) -> bool:
        return max(map(len, words), default=0) > self.config.max_word_chars


class TextEncoder(WordTable, TextSplitter):
    """Encodes texts as rows of its word table."""

    def encode(
        self, texts: Sequence[Text], *, offsets: bool = False, changes: Sequence[Change] | None = None
    ) -> list[Encoded]:
        """Encode texts; words beyond `max_len` are dropped, and `Encoded.truncated` is set.

        Args:
            changes: applied to the words of each text; of several, one after the other.
        """
        by_words = self.config.tokens == "words"
        if (
            by_words
            and not offsets
            and changes is None
            and len(texts) >= _MANY
            and (are_strings(texts) or number_of_texts(texts) > 1)
        ):
            return self._encode_split(texts, self(texts))
        full = self._make_room()
        split = [
            self._split(text, offsets, change)
            for text, change in zip(texts, changes or itertools.repeat(None), strict=False)
        ]
        if not by_words:
            return [self._encoded_subwords(text, *item, full) for text, item in zip(texts, split, strict=True)]
        ids = self._ids
        try:
            rows = [[ids[word] for word in words] for words, _, _ in split]
        except KeyError:
            if not full:
                self._add(word for words, _, _ in split for word in words)
            rows = [[ids.get(word, EMPTY) for word in words] for words, _, _ in split]
        return [
            Encoded(np.array(row or [EMPTY], np.int32), spans, cut, self.generation)
            for row, (_, spans, cut) in zip(rows, split, strict=True)
        ]

    def encode_stream(self, chunks: Iterable[Sequence[Text]]) -> Iterator[list[Encoded]]:
        """Encode chunks of texts; the result equals `encode`'s."""
        for texts in chunks:
            yield self._encode_split(texts, self(texts))

    def _encode_split(self, texts: Sequence[Text], split: SplitTexts) -> list[Encoded]:
        full = self._make_room()
        if self.config.tokens == "subwords":
            distinct = split.words
            indices = split.parts(split.index)
            cuts = split.cut.tolist()
            return [
                self._encoded_subwords(text, [distinct[i] for i in index.tolist()], None, cut, full)
                for text, index, cut in zip(texts, indices, cuts, strict=True)
            ]
        if not full:
            self._add(split.words)
        ids = np.array([self._ids.get(word, EMPTY) for word in split.words], np.int32)
        empty = np.array([EMPTY], np.int32)
        rows = split.parts(ids[split.index] if len(ids) else split.index)
        return [
            Encoded(row if len(row) else empty, None, cut, self.generation)
            for row, cut in zip(rows, split.cut.tolist(), strict=True)
        ]

    def normal_words(self, texts: Iterable[str]) -> list[str]:
        """Return the distinct normalized words of texts, as the vocabulary is trained on them, in order."""
        return list(dict.fromkeys(word for part in _vocabulary_words(texts, self.config) for word in part.words))

    def _encoded_subwords(
        self, text: Text, words: Sequence[Word], spans: list[tuple[int, int]] | None, cut: bool, full: bool
    ) -> Encoded:
        """Encode a text as subwords; words whose first subword is beyond `max_len` are dropped."""
        try:
            spelled = [self._spelled[word] for word in words]
        except KeyError:
            if not full:
                self._add(words)
            spelled = [self._spelled.get(word, [EMPTY]) for word in words]
        if isinstance(text, tuple):
            ends = [at for at, word in enumerate(words) if word == SPECIAL[SEPARATOR]]
            places = itertools.pairwise([-1, *ends, len(words)])
            parts, shortened = fit_parts(
                [list(itertools.chain(*spelled[before + 1 : end])) for before, end in places], self.config.max_len
            )
            rows = join_parts(parts, SEPARATOR)
            return Encoded(np.array(rows, np.int32), None, cut or shortened, self.generation)
        rows = [row for word in spelled for row in word]
        starts = np.cumsum([0, *map(len, spelled)], dtype=np.int32)[: len(words)]
        starts = starts[starts < self.config.max_len]
        cut = cut or len(rows) > self.config.max_len
        spans = spans if spans is None else spans[: len(starts)]
        if not rows:
            rows = [EMPTY]
            starts = np.zeros(1, np.int32)
        return Encoded(np.array(rows[: self.config.max_len], np.int32), spans, cut, self.generation, starts)


def are_strings(texts: Sequence[Text]) -> TypeGuard[Sequence[str]]:
    """Return whether all texts are strings."""
    return all(isinstance(text, str) for text in texts)


def number_of_texts(texts: Sequence[Text]) -> int:
    """Return how many texts belong together, if all are tuples of that number; else 0."""
    numbers = {len(text) if isinstance(text, tuple) else 0 for text in texts}
    return numbers.pop() if len(numbers) == 1 else 0


def fit_parts(parts: Sequence[Sequence[Any]], max_len: int) -> tuple[tuple[Sequence[Any], ...], bool]:
    """Shorten the longest texts so that all fit with separators; also return whether anything was cut."""
    sizes = np.array([list(map(len, parts))], np.int64)
    kept = fit_texts(sizes, max_len)
    return tuple(part[:end] for part, end in zip(parts, kept[0].tolist(), strict=True)), kept is not sizes


def join_parts(parts: Sequence[Sequence[Any]], separator: Any) -> list[Any]:
    """Return the items of all parts, with a separator between two."""
    joined = list(parts[0])
    for part in parts[1:]:
        joined += [separator, *part]
    return joined


def split_normal_words(texts: Sequence[str], config: TextConfig, *, max_chars: int) -> SplitTexts:
    """Return all normalized words of texts, of up to `max_chars` characters each."""
    limit = config.max_word_chars
    lowercase = config.lowercase
    split = StringSplitter(config.contractions, max_chars)(texts)
    return split.renamed(normalize(word[:limit], lowercase=lowercase) for word in split.words)


def _vocabulary_words(texts: Iterable[str], config: TextConfig) -> Iterator[SplitTexts]:
    """Yield the words of texts that a vocabulary is trained on, for some texts at a time."""
    rest = iter(texts)
    while part := list(itertools.islice(rest, _TOGETHER)):
        yield split_normal_words(part, config, max_chars=config.max_chars)


def train_vocabulary(texts: Iterable[Text], config: TextConfig, *, specials: Sequence[str] = ()) -> Vocabulary:
    """Train the vocabulary that the configuration describes on texts, with `specials` as additional special tokens.

    Raises:
        DataError: the texts have no words.
    """
    strings = itertools.chain.from_iterable((text,) if isinstance(text, str) else text for text in texts)
    counts: dict[str, int] = {}
    for part in _vocabulary_words(strings, config):
        for word, count in zip(part.words, part.counts().tolist(), strict=True):
            counts[word] = counts.get(word, 0) + count
    vocabulary = Vocabulary.train(counts, size=config.vocabulary_size, kind=config.vocabulary_kind, specials=specials)
    if len(vocabulary) < 2 + len(specials):
        raise DataError("the training texts have no words; a vocabulary cannot be trained on them")
    return vocabulary
