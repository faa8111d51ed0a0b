"""The table of the words that an encoder has seen; each has a row with its embedding bag."""

from __future__ import annotations

import copy
import hashlib
import itertools
import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from mixling.text.clean import normalize
from mixling.text.config import TextConfig
from mixling.text.fingerprint import Bags, Projector
from mixling.text.vocabulary import Vocabulary

# A word, or (word, marks) where the texts that belong together, or the words they share, are marked.
Word = str | tuple[str, int]
SHARED = 2  # a mark of words that another text has, too
FURTHER = 13  # the bits of a text's number, which `text_mark` returns; 0 of the first
MARKS = (FURTHER | SHARED) + 1  # the number of values that marks have

PADDING = 0
SEPARATOR = 1
EMPTY = 2
FIRST = 3
# Fields for the origin of the vocabulary; only its content matters.
_ORIGIN = ("vocabulary", "vocabulary_kind", "vocabulary_size")
# limits of one addition
_WORDS = 8192
_HASHES = 1 << 22
SPECIAL = {SEPARATOR: "[SEP]", EMPTY: "[EMPTY]"}


class WordTable:
    """Words (or their subwords, if these are tokens) in the order of their first occurrence; each is hashed once.

    When the table holds `max_table` words it is emptied, between calls, and `generation` changes: row numbers of an
    older generation are then invalid. With `keep` the table is never emptied: once it is full, new words are read as
    `EMPTY`. A copied or unpickled table starts empty, unless `keep`.
    """

    def __init__(
        self, config: TextConfig, vocabulary: Vocabulary, *, max_table: int = 1 << 19, keep: bool = False
    ) -> None:
        self.config = config
        self.vocabulary = vocabulary
        self.generation = 0
        self._max_table = max_table
        self._keep = keep
        self._start_table()

    def __getstate__(self) -> dict[str, Any]:
        """Return everything if the table is kept, otherwise what an empty one of the next generation needs."""
        if self._keep:
            return self.__dict__
        names = ("config", "vocabulary", "generation", "_max_table", "_keep")
        return {name: self.__dict__[name] for name in names}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        if not self._keep:
            self.generation += 1
            self._start_table()

    @property
    def digest(self) -> str:
        """A hash that is equal for two encoders exactly if they give every word the same bag."""
        config = self.config.model_dump(mode="json", exclude={"max_len", *_ORIGIN})
        content = json.dumps([config, *self.vocabulary.serialize()], sort_keys=True)
        return hashlib.sha256(content.encode()).hexdigest()

    def __len__(self) -> int:
        return self._size

    @property
    def is_full(self) -> bool:
        """Whether the table has as many words as it may hold."""
        return self._size > self._max_table

    def copy(self, *, max_table: int, keep: bool = False) -> Self:
        """Return a table with the same rows, which has room for at least `max_table / 2` more words."""
        out = copy.copy(self)  # without rows, see `__getstate__`
        out._max_table = max(max_table, self._size + max_table // 2)
        out._keep = keep
        out._ids = self._ids.copy()
        out._spelled = self._spelled.copy()
        out._size = self._size
        out._features = self._features[: self._size].copy()
        out._dtype = self._dtype
        out._weights = None if self._weights is None else self._weights[: self._size].copy()
        return out

    def rows(self, words: Sequence[Word]) -> list[int]:
        """Return the rows of words, added where they are new; tokens must be words."""
        try:
            return [self._ids[word] for word in words]
        except KeyError:
            self._add(words)
            return [self._ids[word] for word in words]

    def spell(self, texts: Sequence[Sequence[Word]]) -> list[list[list[int]]]:
        """Return the rows of each word of texts that are already split: one, or one per subword if these are tokens."""
        self._make_room()
        self._add(word for words in texts for word in words)
        if self.config.tokens == "subwords":
            return [[self._spelled[word] for word in words] for words in texts]
        return [[[self._ids[word]] for word in words] for words in texts]

    @property
    def bag_size(self) -> int:
        """P, the feature indices of the longest bag so far."""
        return self._features.shape[1]

    def bags(self, rows: npt.NDArray[np.integer]) -> Bags:
        """Return the bags of rows of the table; row 0, padding, has no meaningful bag."""
        weights = self._weights[rows] if self._weights is not None else None
        return Bags(self._features[rows].astype(np.int32), weights)

    def table_words(self) -> list[str]:
        """Return the words (or subwords) after the special ones, in the order of their rows, without marks."""
        return [plain_word(word) for word in self.table_keys()]

    def table_keys(self) -> list[Word]:
        """Return what `table_words` does, with marks."""
        return list(self._ids)[FIRST:]

    def words_from(self, first: int) -> tuple[list[str], npt.NDArray[np.int32]]:
        """Return the normalized words of the rows from `first` on, and their marks (R,), 0 where there are none."""
        newest = itertools.islice(reversed(self._ids), max(len(self) - first, 0))  # without walking over the others
        keys = list(newest)[::-1]
        limit = self.config.max_word_chars
        lowercase = self.config.lowercase
        marks = np.array([0 if isinstance(key, str) else key[1] for key in keys], np.int32)
        return [normalize(plain_word(key)[:limit], lowercase=lowercase) for key in keys], marks

    def learn(self, words: Sequence[str]) -> None:
        """Add the words (or subwords) that `table_words` of another table returned, in this order, from row `FIRST` on.

        Raises:
            ValueError: the table has words, and `words` does not begin with them.
        """
        known = self.table_words()
        if known != list(words[: len(known)]):
            raise ValueError("the words belong to another encoder")
        rest = words[len(known) :]
        for first in range(0, len(rest), _WORDS):
            part = rest[first : first + _WORDS]
            normal = [normalize(word[: self.config.max_word_chars], lowercase=self.config.lowercase) for word in part]
            if self.config.tokens == "subwords":
                self._append(part, self._projector.bags(part, [[word] for word in part]))
            else:
                self._append(part, self._projector.bags_of_words(normal))

    def _make_room(self) -> bool:
        """Empty a full table unless it is kept; return whether it is full afterwards."""
        full = self._size > self._max_table
        if full and not self._keep:
            self.generation += 1
            self._start_table()
        return full and self._keep

    def _start_table(self) -> None:
        self._projector = Projector(self.config.projection, self.vocabulary)  # its cache would grow without bound, too
        self._ids: dict[Word, int] = {}
        self._spelled: dict[Word, list[int]] = {}  # only if tokens are subwords
        self._size = 0
        # The smallest type that holds a feature index: with a large corpus, the table takes most of the memory.
        self._dtype = np.uint16 if self.config.num_rows <= 1 << 16 else np.uint32
        self._features = np.zeros((0, 0), self._dtype)
        self._weights: npt.NDArray[np.float32] | None = None
        specials = [SPECIAL.get(row, "[PAD]") for row in range(len(SPECIAL) + 1)]
        self._append(specials, self._projector.bags(specials, [[word] for word in specials]))
        self._spelled.update((word, [row]) for row, word in enumerate(specials))

    def _add(self, words: Iterable[Word]) -> None:
        """Add new words, keyed by their form in the text, so that no word is normalized twice."""
        limit = self.config.max_word_chars
        lowercase = self.config.lowercase
        by_subwords = self.config.tokens == "subwords"
        known = self._spelled if by_subwords else self._ids
        fresh = list(dict.fromkeys(word for word in words if word not in known))
        normal = [normalize(plain_word(word)[:limit], lowercase=lowercase) for word in fresh]
        for part in self._parts(normal):
            if not by_subwords:
                self._append(fresh[part], self._projector.bags_of_words(normal[part]))
                continue
            keys = [
                [_like(word, subword) for subword in spelled]
                for word, spelled in zip(fresh[part], self.vocabulary.subwords(normal[part]), strict=True)
            ]
            new = list(dict.fromkeys(key for spelled in keys for key in spelled if key not in self._ids))
            if new:
                plain = [plain_word(key) for key in new]
                self._append(new, self._projector.bags(plain, [[subword] for subword in plain]))
            self._spelled.update(
                (word, [self._ids[key] for key in spelled]) for word, spelled in zip(fresh[part], keys, strict=True)
            )

    def _parts(self, words: Sequence[str]) -> Iterator[slice]:
        """Divide words into parts whose hashes take tens of megabytes at most, however long the words are."""
        chars_together = _HASHES // getattr(self.config.projection, "num_hashes", 1)
        first = chars = 0
        for number, word in enumerate(words):
            chars += len(word)
            if number > first and (chars > chars_together or number - first >= _WORDS):
                yield slice(first, number)
                first = number
                chars = len(word)
        if first < len(words):
            yield slice(first, len(words))

    def _append(self, words: Sequence[Word], bags: Bags) -> None:
        if self.config.segments or self.config.overlap:
            bags = self._with_marks(bags, words)
        first = self._size
        last = self._size + len(words)
        width = max(self._features.shape[1], bags.features.shape[1])
        self._features = _grown(self._features, last, width)
        self._features[first:last, : bags.features.shape[1]] = bags.features
        if bags.weights is not None:
            self._weights = _grown(self._weights if self._weights is not None else bags.weights[:0], last, width)
            self._weights[first:last, : bags.weights.shape[1]] = bags.weights
        self._ids.update((word, first + i) for i, word in enumerate(words))
        self._size = last

    def _with_marks(self, bags: Bags, words: Sequence[Word]) -> Bags:
        """Append the rows of the marks, which are the last of the embedding table: segments, then overlap."""
        marks = np.array([0 if isinstance(word, str) else word[1] for word in words], np.int32)
        columns = []
        if self.config.segments:
            first = self.config.num_rows - self.config.segments - 2 * self.config.overlap
            columns.append(first + (marks & 1 | marks >> 2 << 1))
        if self.config.overlap:
            columns.append(self.config.num_rows - 2 + ((marks & SHARED) > 0))
        rows = np.stack(columns, axis=1).astype(np.int32)
        weights = bags.weights
        if weights is not None:
            weights = np.concatenate([weights, np.ones(rows.shape, np.float32)], axis=1)
        return Bags(np.concatenate([bags.features, rows], axis=1), weights)


def text_mark(number: Any) -> Any:
    """Return the mark of the words of a text by its number, or by an array of numbers."""
    return number & 1 | number >> 1 << 2


def plain_word(word: Word) -> str:
    """Return the word without its marks."""
    return word if isinstance(word, str) else word[0]


def _like(word: Word, subword: str) -> Word:
    """Return the subword with the marks of the word."""
    return subword if isinstance(word, str) else (subword, word[1])


def _grown(table: npt.NDArray[Any], rows: int, width: int) -> npt.NDArray[Any]:
    """Return `table` with room for `rows` rows of `width`; it grows by at least half, so appending is cheap."""
    if rows <= table.shape[0] and width == table.shape[1]:
        return table
    capacity = table.shape[0] if rows <= table.shape[0] else max(rows, table.shape[0] * 3 // 2)
    out = np.zeros((capacity, width), table.dtype)
    out[: table.shape[0], : table.shape[1]] = table
    return out
