"""Texts that belong together, such as a pair, as one sequence of words: marked, shortened, with separators."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mixling.text.clean import lower
from mixling.text.config import TextConfig
from mixling.text.splitting import SplitTexts
from mixling.text.table import MARKS, SEPARATOR, SHARED, SPECIAL, Word, text_mark


@dataclass(frozen=True, slots=True)
class JoinedTexts:
    """The words of several examples, of as many texts each.

    Attributes:
        index: (T,) the words of all texts, as the numbers that were given; -1 for separators.
        marks: (T,) int32, 0 where a word has none.
        lengths: (B,) the number of words of each example, separators included.
        shortened: (B,) whether words were dropped.
    """

    index: npt.NDArray[np.integer]
    marks: npt.NDArray[np.int32]
    lengths: npt.NDArray[np.int32]
    shortened: npt.NDArray[np.bool_]

    def split(self, words: Sequence[str], cut: npt.NDArray[np.bool_]) -> SplitTexts:
        """Return the examples as words with marks, given what the numbers stand for and which were cut."""
        keys = self.index.astype(np.int64) * MARKS + self.marks
        distinct, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
        order = np.argsort(first)
        rank = np.empty(len(order), np.int32)
        rank[order] = np.arange(len(order))
        found = [_word(words, *divmod(key, MARKS)) for key in distinct[order].tolist()]
        return SplitTexts(found, rank[inverse], self.lengths, cut | self.shortened)


def join_texts(
    index: npt.NDArray[np.integer],
    lengths: npt.NDArray[np.integer],
    number: int,
    lowered: npt.NDArray[np.integer],
    config: TextConfig,
) -> JoinedTexts:
    """Return examples as `TextEncoder.marked` and `fit_texts` make them, for all at once.

    Args:
        index: (T,) the words of all texts, as numbers.
        lengths: (number B,) the number of words of each text, an example's one after the other.
        number: the texts of each example.
        lowered: for each number, the number of the word in lower case; equal for equal ones.
        config: how texts are read; where tokens are subwords, nothing is dropped.
    """
    sizes = lengths.astype(np.int64).reshape(-1, number)
    texts = np.repeat(np.arange(len(lengths)), lengths)
    examples = texts // number
    place = texts % number
    marks = np.zeros(len(index), np.int32)
    if config.segments:
        marks |= text_mark(place.astype(np.int32))
    if config.overlap:
        keys = examples << 32 | lowered[index]
        words, counts = np.unique(np.unique(keys << 3 | place) >> 3, return_counts=True)  # texts that have each word
        marks |= np.isin(keys, words[counts > 1]).astype(np.int32) * SHARED
    kept = fit_texts(sizes, config.max_len) if config.tokens == "words" else sizes
    starts = np.cumsum(lengths) - lengths
    read = np.flatnonzero(np.arange(len(index)) - starts[texts] < kept.reshape(-1)[texts])
    length = len(read) + (number - 1) * len(sizes)
    out = JoinedTexts(
        np.full(length, -1, index.dtype),
        np.zeros(length, np.int32),
        (kept.sum(1) + number - 1).astype(np.int32),
        np.any(kept < sizes, axis=1, keepdims=True)[:, 0],
    )
    places = np.arange(len(read)) + (number - 1) * examples[read] + place[read]  # behind separators
    out.index[places] = index[read]
    out.marks[places] = marks[read]
    return out


def fit_texts(sizes: npt.NDArray[np.int64], max_len: int) -> npt.NDArray[np.int64]:
    """Return how many words are read of texts of (B, n) words, so that each example fits with its separators.

    The longest texts lose words at their end, so that none of them has more than one word more than another.
    """
    number = sizes.shape[1]
    space = max(max_len - (number - 1), 0)
    is_cut = np.repeat(sizes.sum(1, keepdims=True) > space, number, axis=1)
    if not is_cut.any():
        return sizes
    level = room = np.zeros((len(sizes), 1), np.int64)
    for _ in range(number):  # what short texts leave is for longer ones
        room = space - np.where(is_cut, 0, sizes).sum(1, keepdims=True)
        level = room // np.maximum(is_cut.sum(1, keepdims=True), 1)
        is_cut = is_cut & (sizes > level)
    rest = room - level * is_cut.sum(1, keepdims=True)
    return np.where(is_cut, level + (np.cumsum(is_cut, axis=1) <= rest), sizes)


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
