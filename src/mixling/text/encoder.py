"""Text -> words -> rows of a word table, whose bags the model's front end sums."""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from pydantic import Field

from mixling.config import Config
from mixling.errors import ConfigError, DataError
from mixling.text.clean import clean, normalise
from mixling.text.fingerprint import HASH_VERSION, AveragedEmbedding, Bags, MinHash, Projection, Projector, Units
from mixling.text.vocabulary import Vocabulary, VocabularyKind
from mixling.text.words import split_words, word_spans

# One text, a pair of texts, or the words of a sentence that was split before.
Text = str | tuple[str, str] | list[str]

# A word as the table knows it; with marks where texts of a pair are told apart, or what they share: (word, marks).
_Word = str | tuple[str, int]
_SECOND, _SHARED = 1, 2

PADDING, SEPARATOR, EMPTY, FIRST = 0, 1, 2, 3
# Fields that say where the vocabulary came from: what it is counts.
_ORIGIN = ("vocabulary", "vocabulary_kind", "vocabulary_size")
_SPECIAL = {SEPARATOR: "[SEP]", EMPTY: "[EMPTY]"}


class TextConfig(Config):
    """How text becomes the positions of a model."""

    projection: Projection = MinHash()
    tokens: Literal["words", "units"] = Field("words", description="whether a token is a word, or each of its units")
    segments: bool = Field(False, description="two more rows, added to the words of a first (or only) and second text")
    overlap: bool = Field(
        False,
        description="two more rows, added to the words of a pair that only one text has, and to those that both have",
    )
    max_len: int = Field(64, ge=1, le=1_000_000, description="tokens per text (pairs: with the separator)")
    max_word_chars: int = Field(100, ge=1, le=1_000, description="characters per word that are read")
    lowercase: bool = True
    contractions: bool = Field(False, description='English: "isn\'t" is two words, "is" and "n\'t"')
    vocabulary: str | None = Field(
        None,
        description="vocab.txt, tokenizer.json, a SentencePiece .model, a folder or a hub name; None: trained here",
    )
    vocabulary_kind: VocabularyKind = Field("wordpiece", description="units to train where `vocabulary` is None")
    vocabulary_size: int | None = Field(None, ge=100, le=1_000_000, description="units to train; None: from the data")
    hash_version: Literal[1] = HASH_VERSION  # type: ignore[assignment]

    @property
    def max_chars(self) -> int:
        """Characters per text that are looked at, enough for `max_len` words of full length."""
        return self.max_len * (self.max_word_chars + 1)

    @property
    def num_rows(self) -> int:
        """Rows of the table that the bags of words point into.

        Raises:
            ConfigError: the table has a row for each unit, and the vocabulary is not known yet.
        """
        if self.projection.num_features is None:
            raise ConfigError("projection 'units': num_features is known with the vocabulary only; set it here")
        return self.projection.num_features + 2 * self.segments + 2 * self.overlap

    def for_vocabulary(self, vocabulary: Vocabulary) -> TextConfig:
        """This configuration with what it leaves to the vocabulary.

        Raises:
            ConfigError: the projection has rows for another number of units.
        """
        projection = self.projection
        if not isinstance(projection, Units | AveragedEmbedding):
            return self
        if isinstance(projection, Units) and projection.num_features is None:
            return self.model_copy(update={"projection": Units(num_features=len(vocabulary))})
        if projection.num_features != len(vocabulary):
            raise ConfigError(
                f"projection {projection.type!r}: num_features is {projection.num_features}, but the vocabulary has "
                f"{len(vocabulary)} units; set model.text.projection.num_features and model.text.vocabulary to fit"
            )
        return self


@dataclass(frozen=True, slots=True)
class Encoded:
    """One text as the model reads it.

    words: (N,) int32, rows of the encoder's word table.
    offsets: of each word start and end characters in the text (of a list: its words joined by single spaces); None
        unless asked for, and for pairs. A text without words has one row all the same, and no offsets.
    truncated: whether words, or characters of a word, were left out.
    generation: of the encoder's word table; the rows mean nothing in another.
    starts: (W,) int32, the first token of each word where tokens are units, of which a word may have several.
    """

    words: npt.NDArray[np.int32]
    offsets: list[tuple[int, int]] | None
    truncated: bool
    generation: int
    starts: npt.NDArray[np.int32] | None = None

    def of_words(self, answers: npt.NDArray) -> npt.NDArray:
        """Of answers for tokens (N, ...) those that count for words (W, ...): the ones of their first units."""
        return answers if self.starts is None else answers[self.starts]


class TextEncoder:
    """Encodes texts; keeps a table with the bag of every word that it has met, so that each is hashed once.

    The table's row numbers are the only state: `generation` changes when the table was emptied because it held
    `max_table` words, and row numbers of an older generation mean nothing then. It happens only between calls. With
    `keep` the table is never emptied: once it is full, words that it does not hold are read as `EMPTY`.
    """

    def __init__(
        self, config: TextConfig, vocabulary: Vocabulary, *, max_table: int = 1 << 19, keep: bool = False
    ) -> None:
        self.config = config
        self.vocabulary = vocabulary
        self.generation = 0
        self._max_table, self._keep = max_table, keep
        self._start_table()

    @property
    def digest(self) -> str:
        """Equal for two encoders exactly if they give every word the same bag."""
        config = self.config.model_dump(mode="json", exclude={"max_len", *_ORIGIN})
        content = json.dumps([config, *self.vocabulary.serialise()], sort_keys=True)
        return hashlib.sha256(content.encode()).hexdigest()

    def __len__(self) -> int:
        return self._size

    def encode(self, texts: Sequence[Text], *, offsets: bool = False) -> list[Encoded]:
        """Encode texts; words beyond `max_len` are left out and the answer says so."""
        full = self._make_room()
        split = [self._split(text, offsets) for text in texts]
        if self.config.tokens == "units":
            return [self._encoded_units(text, *item, full) for text, item in zip(texts, split, strict=True)]
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

    def spell(self, texts: Sequence[Sequence[_Word]]) -> list[list[list[int]]]:
        """Of words that were split before, the rows of each: one, or where tokens are units one for each unit."""
        self._make_room()
        self._add(word for words in texts for word in words)
        if self.config.tokens == "units":
            return [[self._spelled[word] for word in words] for words in texts]
        return [[[self._ids[word]] for word in words] for words in texts]

    def bags(self, rows: npt.NDArray[np.integer]) -> Bags:
        """The bags of rows of the word table; row 0 is padding and has none."""
        weights = self._weights[rows] if self._weights is not None else None
        return Bags(self._positions[rows].astype(np.int32), weights)

    def table_words(self) -> list[str]:
        """The words (or units) of the table after the special ones, in the order of their rows; without marks."""
        return [_string(word) for word in list(self._ids)[FIRST:]]

    def learn(self, words: Sequence[str]) -> None:
        """Enter words, or units, in this order from the row `FIRST` on, as `table_words` gave them.

        The table must be new, or begin with them.

        Raises:
            ValueError: it holds others.
        """
        known = self.table_words()
        if known != list(words[: len(known)]):
            raise ValueError("the words are those of another encoder")
        rest = words[len(known) :]
        for first in range(0, len(rest), 8192):
            part = rest[first : first + 8192]
            normal = [normalise(word[: self.config.max_word_chars], lowercase=self.config.lowercase) for word in part]
            by_units = self.config.tokens == "units"
            units = [[word] for word in part] if by_units else self.vocabulary.units(normal)
            self._append(part, part if by_units else normal, units)

    def words(self, text: str) -> list[str]:
        """The normalised words of a text, as the vocabulary is trained on them."""
        text, _ = clean(text, self.config.max_chars)
        return normal_words(text, self.config)

    def _encoded_units(
        self, text: Text, words: Sequence[_Word], spans: list[tuple[int, int]] | None, cut: bool, full: bool
    ) -> Encoded:
        """Each word as its units; a word whose first unit is beyond `max_len` is left out."""
        try:
            spelled = [self._spelled[word] for word in words]
        except KeyError:
            if not full:
                self._add(words)
            spelled = [self._spelled.get(word, [EMPTY]) for word in words]
        if isinstance(text, tuple):
            middle = words.index(_SPECIAL[SEPARATOR])
            before, after = (list(itertools.chain(*part)) for part in (spelled[:middle], spelled[middle + 1 :]))
            first, second, shortened = _fit_pair(before, after, self.config.max_len)
            return Encoded(np.array([*first, SEPARATOR, *second], np.int32), None, cut or shortened, self.generation)
        rows = [row for word in spelled for row in word]
        starts = np.cumsum([0, *map(len, spelled)], dtype=np.int32)[: len(words)]
        starts = starts[starts < self.config.max_len]
        cut = cut or len(rows) > self.config.max_len
        spans = spans if spans is None else spans[: len(starts)]
        if not rows:
            rows, starts = [EMPTY], np.zeros(1, np.int32)
        return Encoded(np.array(rows[: self.config.max_len], np.int32), spans, cut, self.generation, starts)

    def _split(self, text: Text, offsets: bool) -> tuple[Sequence[_Word], list[tuple[int, int]] | None, bool]:
        config = self.config
        if isinstance(text, str):
            text, cut = clean(text, config.max_chars)
            if offsets:
                spans = word_spans(text, config.max_len + 1, contractions=config.contractions)
                words = [text[start:end] for start, end in spans]
            else:
                spans, words = [], split_words(text, contractions=config.contractions)
            if len(words) > config.max_len:
                words, spans, cut = words[: config.max_len], spans[: config.max_len], True
            return words, spans if offsets else None, cut or self._too_long(words)
        if isinstance(text, tuple):
            return self._split_pair(text)
        given = text[: config.max_len]
        words = [clean(word, config.max_chars)[0] for word in given]
        cut = len(text) > config.max_len or self._too_long(words)
        if not offsets:
            return words, None, cut
        ends = np.cumsum([len(word) + 1 for word in given]).tolist()  # of the words as given, joined by spaces
        return words, [(end - 1 - len(word), end - 1) for word, end in zip(given, ends, strict=True)], cut

    def _split_pair(self, pair: tuple[str, str]) -> tuple[list[_Word], None, bool]:
        """Both texts with a separator between; what is too long loses words at the end of the longer text."""
        (first, _, cut_a), (second, _, cut_b) = (self._split(text, False) for text in pair)
        cut = cut_a or cut_b
        if self.config.segments or self.config.overlap:
            first, second = self.marked(first, second)
        if self.config.tokens == "words":
            first, second, shortened = _fit_pair(first, second, self.config.max_len)
            cut = cut or shortened
        return [*first, _SPECIAL[SEPARATOR], *second], None, cut

    def marked(self, first: Sequence[_Word], second: Sequence[_Word]) -> tuple[list[_Word], list[_Word]]:
        """The words of both texts with their marks; those of unmarked words are 0, and left out."""
        sides = [[_string(word) for word in side] for side in (first, second)]
        shared: set[str] = set()
        if self.config.overlap:
            shared = set.intersection(*({word.lower() for word in side} for side in sides))

        def mark(word: str, place: int) -> _Word:
            marks = (_SHARED if word.lower() in shared else 0) | place
            return (word, marks) if marks else word

        return (
            [mark(word, 0) for word in sides[0]],
            [mark(word, _SECOND if self.config.segments else 0) for word in sides[1]],
        )

    def _too_long(self, words: Sequence[str]) -> bool:
        return any(len(word) > self.config.max_word_chars for word in words)

    def _make_room(self) -> bool:
        """Empty a full table, where that is allowed; whether it is full all the same."""
        full = self._size > self._max_table
        if full and not self._keep:
            self.generation += 1
            self._start_table()
        return full and self._keep

    def _start_table(self) -> None:
        self._projector = Projector(self.config.projection, self.vocabulary)  # its units would grow without end, too
        self._ids: dict[_Word, int] = {}
        self._spelled: dict[_Word, list[int]] = {}  # where tokens are units
        self._size = 0
        # The smallest type that holds a position: the table of a large corpus is the largest thing in memory.
        self._dtype = np.uint16 if self.config.num_rows <= 1 << 16 else np.uint32
        self._positions = np.zeros((0, 0), self._dtype)
        self._weights: npt.NDArray[np.float32] | None = None
        specials = [_SPECIAL.get(row, "[PAD]") for row in range(len(_SPECIAL) + 1)]
        self._append(specials, specials, [[word] for word in specials])
        self._spelled.update((word, [row]) for row, word in enumerate(specials))

    def _add(self, words: Iterable[_Word]) -> None:
        """Enter words that are new, under their form in the text: no word is normalised twice."""
        limit, lowercase = self.config.max_word_chars, self.config.lowercase
        by_units = self.config.tokens == "units"
        known = self._spelled if by_units else self._ids
        fresh = list(dict.fromkeys(word for word in words if word not in known))
        normal = [normalise(_string(word)[:limit], lowercase=lowercase) for word in fresh]
        for first in range(0, len(fresh), 8192):
            part = slice(first, first + 8192)
            units = self.vocabulary.units(normal[part])
            if not by_units:
                self._append(fresh[part], normal[part], units)
                continue
            keys = [[_like(word, unit) for unit in spelled] for word, spelled in zip(fresh[part], units, strict=True)]
            new = list(dict.fromkeys(key for spelled in keys for key in spelled if key not in self._ids))
            if new:
                self._append(new, [_string(key) for key in new], [[_string(key)] for key in new])
            self._spelled.update(
                (word, [self._ids[key] for key in spelled]) for word, spelled in zip(fresh[part], keys, strict=True)
            )

    def _append(self, words: Sequence[_Word], normal: Sequence[str], units: Sequence[Sequence[str]]) -> None:
        bags = self._projector.bags(normal, units)
        if self.config.segments or self.config.overlap:
            bags = self._with_marks(bags, words)
        first, last = self._size, self._size + len(words)
        width = max(self._positions.shape[1], bags.positions.shape[1])
        self._positions = _grown(self._positions, last, width)
        self._positions[first:last, : bags.positions.shape[1]] = bags.positions
        if bags.weights is not None:
            self._weights = _grown(self._weights if self._weights is not None else bags.weights[:0], last, width)
            self._weights[first:last, : bags.weights.shape[1]] = bags.weights
        self._ids.update((word, first + i) for i, word in enumerate(words))
        self._size = last

    def _with_marks(self, bags: Bags, words: Sequence[_Word]) -> Bags:
        """Each bag with the rows of its marks, the last of the table: of the segment, then of the overlap."""
        marks = np.array([0 if isinstance(word, str) else word[1] for word in words], np.int32)
        kinds = [mark for mark, used in ((_SECOND, self.config.segments), (_SHARED, self.config.overlap)) if used]
        first = self.config.num_rows - 2 * len(kinds)
        rows = np.stack([first + 2 * i + ((marks & mark) > 0) for i, mark in enumerate(kinds)], axis=1).astype(np.int32)
        weights = bags.weights
        if weights is not None:
            weights = np.concatenate([weights, np.ones(rows.shape, np.float32)], axis=1)
        return Bags(np.concatenate([bags.positions, rows], axis=1), weights)


def _string(word: _Word) -> str:
    return word if isinstance(word, str) else word[0]


def _like(word: _Word, unit: str) -> _Word:
    """The unit with the marks of the word."""
    return unit if isinstance(word, str) else (unit, word[1])


def _fit_pair(first: Sequence[Any], second: Sequence[Any], max_len: int) -> tuple[Sequence[Any], Sequence[Any], bool]:
    """Both parts, cut so that they and a separator fit, and whether anything was cut; the longer one loses first."""
    space = max_len - 1
    keep_second = min(len(second), max(space - len(first), space // 2))
    keep_first = min(len(first), space - keep_second)
    return first[:keep_first], second[:keep_second], keep_first < len(first) or keep_second < len(second)


def normal_words(text: str, config: TextConfig) -> list[str]:
    """The normalised words of a clean text."""
    limit, words = config.max_word_chars, split_words(text, contractions=config.contractions)
    return [normalise(word[:limit], lowercase=config.lowercase) for word in words]


def train_vocabulary(texts: Iterable[Text], config: TextConfig, *, specials: Sequence[str] = ()) -> Vocabulary:
    """Units of texts, of the kind and number that the configuration names, and `specials` that no text spells.

    Raises:
        DataError: there is no word in the texts.
    """

    def words() -> Iterable[str]:
        for text in texts:
            for part in text if not isinstance(text, str) else (text,):
                yield from normal_words(clean(part, config.max_chars)[0], config)

    vocabulary = Vocabulary.train(words(), size=config.vocabulary_size, kind=config.vocabulary_kind, specials=specials)
    if len(vocabulary) < 2 + len(specials):
        raise DataError("the training text has no word at all; the vocabulary cannot be trained on it")
    return vocabulary


def _grown(table: npt.NDArray, rows: int, width: int) -> npt.NDArray:
    """`table` with room for `rows` rows of `width`; grows by half at least, so that appending costs little."""
    if rows <= table.shape[0] and width == table.shape[1]:
        return table
    capacity = table.shape[0] if rows <= table.shape[0] else max(rows, table.shape[0] * 3 // 2)
    out = np.zeros((capacity, width), table.dtype)
    out[: table.shape[0], : table.shape[1]] = table
    return out
