"""TF-IDF features of texts: the numbers of scikit-learn's TfidfVectorizer, in a base install and in less time.

Terms are words and pairs of words, and optionally the character n-grams inside of what spaces separate, each kind with
vectors of unit length of its own. The n-grams of a piece of text are found once, however many texts have it.
"""

from __future__ import annotations

import itertools
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from mixling.arrays import Float32, Int64
from mixling.errors import DataError
from mixling.native.sparse import SparseRows
from mixling.text.encoder import Text

FEATURES = ("word", "word+char")
_WORD = re.compile(r"\w+")
_LENGTHS = range(2, 6)  # of character n-grams
_LEAST_TEXTS = 2  # with a character n-gram


def sides_of(text: Text) -> tuple[str, ...]:
    """Return a text as one string, and several as they are; pre-split words are joined by spaces."""
    return text if isinstance(text, tuple) else (text if isinstance(text, str) else " ".join(text),)


class TfidfFeatures:
    """TF-IDF of word 1-2-grams, optionally with character 2-5-grams inside words; both texts of a pair have their own.

    Args:
        features: of FEATURES.
    """

    parameters = 0  # terms and their weights are counted, not learned

    def __init__(self, features: str) -> None:
        self._features = features
        self._sides: list[list[_Terms]] = []

    def fit_transform(self, texts: Sequence[Text]) -> SparseRows:
        """Learn the terms and return the features (R, F).

        Raises:
            DataError: no text has a term.
        """
        kinds = (_WordTerms, _CharacterTerms) if self._features == "word+char" else (_WordTerms,)
        sides = list(zip(*map(sides_of, texts), strict=True))
        self._sides = [[kind() for kind in kinds] for _ in sides]
        parts = [one.fit_transform(side) for ones, side in zip(self._sides, sides, strict=True) for one in ones]
        out = SparseRows.beside(parts)
        if not out.shape[1]:
            raise DataError(
                f"TF-IDF finds no terms ({self._features}) in the training texts; give texts that have some"
            )
        return out

    def transform(self, texts: Sequence[Text]) -> SparseRows:
        """Return the features (R, F) of other texts."""
        sides = zip(*map(sides_of, texts), strict=True)
        return SparseRows.beside(
            [one.transform(side) for ones, side in zip(self._sides, sides, strict=True) for one in ones]
        )

    def size(self) -> int:
        """Return the bytes of the terms as lines of text, and of their float32 weights."""
        return sum(one.size() for ones in self._sides for one in ones)


class _Terms(ABC):
    """Terms of one kind, and the weight of each."""

    _weights: Float32

    def fit_transform(self, texts: Sequence[str]) -> SparseRows:
        counts = self._learn(texts)
        frequencies = np.bincount(counts.indices, minlength=counts.shape[1])
        self._weights = (np.log((1 + len(texts)) / (1 + frequencies)) + 1).astype(np.float32)
        return self._weighted(counts)

    def transform(self, texts: Sequence[str]) -> SparseRows:
        return self._weighted(self._count(texts))

    def _weighted(self, counts: SparseRows) -> SparseRows:
        values = (1 + np.log(counts.data)) * self._weights[counts.indices]
        owners = counts.owners
        lengths = np.sqrt(np.bincount(owners, np.square(values, dtype=np.float64), counts.shape[0]))
        return replace(counts, data=(values / lengths[owners]).astype(np.float32))

    @abstractmethod
    def _learn(self, texts: Sequence[str]) -> SparseRows:
        """Learn the terms of texts, and return how often each text has each."""

    @abstractmethod
    def _count(self, texts: Sequence[str]) -> SparseRows:
        """Return how often each text has each of the learned terms."""

    @abstractmethod
    def size(self) -> int:
        """Return the bytes of the terms as lines of text, and of their float32 weights."""


class _WordTerms(_Terms):
    """Words and pairs of words."""

    def _learn(self, texts: Sequence[str]) -> SparseRows:
        self._words: dict[str, int] = {}
        owners, words = _numbered([_WORD.findall(text.lower()) for text in texts], self._words)
        self._pairs = np.unique(self._pairs_of(owners, words)[1])
        return self._matrix(owners, words, len(texts))

    def _count(self, texts: Sequence[str]) -> SparseRows:
        found = [[self._words.get(word, -1) for word in _WORD.findall(text.lower())] for text in texts]
        return self._matrix(*_flat(found), len(texts))

    def _pairs_of(self, owners: Int64, words: Int64) -> tuple[Int64, Int64]:
        """Return the pairs of known words as numbers, behind the texts that have them."""
        beside = (owners[1:] == owners[:-1]) & (words[1:] >= 0) & (words[:-1] >= 0)
        return owners[1:][beside], (words[:-1] * len(self._words) + words[1:])[beside]

    def _matrix(self, owners: Int64, words: Int64, texts: int) -> SparseRows:
        of_pairs, pairs = self._pairs_of(owners, words)
        places = np.searchsorted(self._pairs, pairs)
        known = self._pairs[np.minimum(places, len(self._pairs) - 1)] == pairs if len(self._pairs) else pairs < 0
        rows = np.concatenate([owners[words >= 0], of_pairs[known]])
        columns = np.concatenate([words[words >= 0], len(self._words) + places[known]])
        return SparseRows.of_pairs(rows, columns, (texts, len(self._words) + len(self._pairs)))

    def size(self) -> int:
        lengths = np.array([_bytes(word) for word in self._words], np.int64)
        pairs = np.divmod(self._pairs, max(len(self._words), 1))
        of_pairs = int(sum(lengths[words].sum() for words in pairs)) + len(self._pairs)  # with a space each
        return int(lengths.sum()) + of_pairs + 5 * len(self._weights)


class _CharacterTerms(_Terms):
    """The n-grams of characters inside of what spaces separate, with a space at each end."""

    def _learn(self, texts: Sequence[str]) -> SparseRows:
        self._grams: dict[str, int] = {}
        counts = self._matrix(texts, learn=True)
        kept = np.bincount(counts.indices, minlength=counts.shape[1]) >= _LEAST_TEXTS
        self._grams = {gram: number for number, gram in enumerate(itertools.compress(self._grams, kept))}
        return counts.columns(kept)

    def _count(self, texts: Sequence[str]) -> SparseRows:
        return self._matrix(texts, learn=False)

    def _matrix(self, texts: Sequence[str], *, learn: bool) -> SparseRows:
        pieces: dict[str, int] = {}
        owners, numbers = _numbered([text.lower().split() for text in texts], pieces)
        grams = self._grams
        if learn:
            found = [[grams.setdefault(gram, len(grams)) for gram in _grams(piece)] for piece in pieces]
        else:
            found = [[grams[gram] for gram in _grams(piece) if gram in grams] for piece in pieces]
        of_piece = SparseRows.of_pairs(*_flat(found), (len(pieces), len(grams)))
        return SparseRows.of_pairs(owners, numbers, (len(texts), len(pieces))).times(of_piece)

    def size(self) -> int:
        return sum(map(_bytes, self._grams)) + 5 * len(self._grams)


def _grams(piece: str) -> Iterator[str]:
    piece = f" {piece} "
    for length in _LENGTHS:
        yield from (piece[first : first + length] for first in range(len(piece) - length + 1))
        if length >= len(piece):  # whole, it counts once
            return


def _numbered(pieces: Sequence[Sequence[str]], numbers: dict[str, int]) -> tuple[Int64, Int64]:
    """Return the text of each piece, and its number, which is new for a new one."""
    return _flat([[numbers.setdefault(piece, len(numbers)) for piece in of_text] for of_text in pieces])


def _flat(numbers: Sequence[Sequence[int]]) -> tuple[Int64, Int64]:
    owners = np.repeat(np.arange(len(numbers)), list(map(len, numbers)))
    return owners, np.fromiter(itertools.chain.from_iterable(numbers), np.int64, len(owners))


def _bytes(term: str) -> int:
    return len(term.encode("utf-8", "surrogatepass"))
