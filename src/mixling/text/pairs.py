"""Pairs of texts as one sequence of words: marked, shortened, and with a separator between both texts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mixling.text.clean import lower
from mixling.text.config import TextConfig
from mixling.text.splitting import SplitTexts
from mixling.text.table import MARKS, SECOND, SEPARATOR, SHARED, SPECIAL, Word


@dataclass(frozen=True, slots=True)
class JoinedPairs:
    """The words of several pairs.

    Attributes:
        index: (T,) the words of all pairs, as the numbers that were given; -1 for separators.
        marks: (T,) int32, 0 where a word has none.
        lengths: (B,) the number of words of each pair, the separator included.
        shortened: (B,) whether words were dropped.
    """

    index: npt.NDArray[np.integer]
    marks: npt.NDArray[np.int32]
    lengths: npt.NDArray[np.int32]
    shortened: npt.NDArray[np.bool_]

    def split(self, words: Sequence[str], cut: npt.NDArray[np.bool_]) -> SplitTexts:
        """Return the pairs as texts of words with marks, given what the numbers stand for and which texts were cut."""
        keys = self.index.astype(np.int64) * MARKS + self.marks
        distinct, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
        order = np.argsort(first)
        rank = np.empty(len(order), np.int32)
        rank[order] = np.arange(len(order))
        found = [_word(words, *divmod(key, MARKS)) for key in distinct[order].tolist()]
        return SplitTexts(found, rank[inverse], self.lengths, cut | self.shortened)


def join_pairs(
    index: npt.NDArray[np.integer],
    lengths: npt.NDArray[np.integer],
    lowered: npt.NDArray[np.integer],
    config: TextConfig,
) -> JoinedPairs:
    """Return pairs of texts as `TextEncoder.marked` and `fit_pair` make them, for all at once.

    Args:
        index: (T,) the words of all texts, as numbers.
        lengths: (2 B,) the number of words of each text, a pair's one after the other.
        lowered: for each number, the number of the word in lower case; equal for equal ones.
        config: how texts are read; where tokens are subwords, nothing is dropped.
    """
    sizes = lengths.astype(np.int64).reshape(-1, 2)
    texts = np.repeat(np.arange(len(lengths)), lengths)
    pairs = texts >> 1
    second = texts & 1
    marks = np.zeros(len(index), np.int32)
    if config.segments:
        marks |= second.astype(np.int32) * SECOND
    if config.overlap:
        keys = pairs << 32 | lowered[index]
        shared = np.intersect1d(keys[second == 0], keys[second == 1])
        marks |= np.isin(keys, shared).astype(np.int32) * SHARED
    kept = sizes
    if config.tokens == "words":
        space = config.max_len - 1
        last = np.minimum(sizes[:, 1], np.maximum(space - sizes[:, 0], space // 2))
        kept = np.stack([np.minimum(sizes[:, 0], space - last), last], axis=1)
    starts = np.cumsum(lengths) - lengths
    read = np.flatnonzero(np.arange(len(index)) - starts[texts] < kept.reshape(-1)[texts])
    out = JoinedPairs(
        np.full(len(read) + len(sizes), -1, index.dtype),
        np.zeros(len(read) + len(sizes), np.int32),
        (kept.sum(1) + 1).astype(np.int32),
        np.any(kept < sizes, axis=1, keepdims=True)[:, 0],
    )
    places = np.arange(len(read)) + pairs[read] + second[read]  # behind the separators of these pairs
    out.index[places] = index[read]
    out.marks[places] = marks[read]
    return out


class LoweredWords:
    """Numbers of words in lower case, equal for equal ones."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def of(self, words: Sequence[str]) -> npt.NDArray[np.int64]:
        """Return the numbers (W,) of words in lower case."""
        numbers = self._numbers
        return np.array([numbers.setdefault(lower(word), len(numbers)) for word in words], np.int64)


def _word(words: Sequence[str], number: int, marks: int) -> Word:
    if number < 0:
        return SPECIAL[SEPARATOR]
    return (words[number], marks) if marks else words[number]
