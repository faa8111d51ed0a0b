"""Split texts into words; what depends on the order of the texts is done afterwards."""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from mixling.native import _core


@dataclass(frozen=True, slots=True)
class SplitTexts:
    """The words of several texts.

    Attributes:
        words: the distinct words, in the order of their first occurrence.
        index: (T,) int32, the words of all texts, as indices of `words`.
        lengths: (B,) int32, the number of words of each text.
        cut: (B,) whether words, or characters of a word, were dropped.
    """

    words: list[Any]
    index: npt.NDArray[np.int32]
    lengths: npt.NDArray[np.int32]
    cut: npt.NDArray[np.bool_]

    @classmethod
    def of(cls, texts: Iterable[tuple[Sequence[Any], bool]]) -> SplitTexts:
        """Collect the words of texts, and whether each was cut."""
        numbers: dict[Any, int] = {}
        index: list[int] = []
        lengths = []
        cut = []
        for words, was_cut in texts:
            index += [numbers.setdefault(word, len(numbers)) for word in words]
            lengths.append(len(words))
            cut.append(was_cut)
        return cls(list(numbers), np.array(index, np.int32), np.array(lengths, np.int32), np.array(cut, bool))

    def renamed(self, words: Iterable[Any]) -> SplitTexts:
        """Return the same texts of other words, which stand for `self.words` one by one and need not be distinct."""
        numbers: dict[Any, int] = {}
        ids = np.array([numbers.setdefault(word, len(numbers)) for word in words], np.int32)
        return SplitTexts(list(numbers), ids[self.index] if len(ids) else self.index, self.lengths, self.cut)

    def counts(self) -> npt.NDArray[np.int64]:
        """Return how often each word occurs."""
        return np.bincount(self.index, minlength=len(self.words))

    def parts(self, values: npt.NDArray[np.int32]) -> list[npt.NDArray[np.int32]]:
        """Return the part of values (T,) that belongs to each text."""
        ends = np.cumsum(self.lengths).tolist()
        return [values[first:last] for first, last in zip([0, *ends], ends, strict=False)]


@dataclass(frozen=True, slots=True)
class StringSplitter:
    """Splits strings into words.

    Attributes:
        max_chars: characters of a string that are read.
        max_words: words of a string that are read.
        max_word_chars: a word of more characters counts as cut; it is returned in full.
    """

    contractions: bool
    max_chars: int
    max_words: int = sys.maxsize
    max_word_chars: int = sys.maxsize

    def __call__(self, texts: Sequence[str]) -> SplitTexts:
        """Return the words of strings, which are not normalized."""
        words, *columns = _native_splitter(self).split(texts)
        return SplitTexts(words, *map(np.frombuffer, columns, (np.int32, np.int32, bool)))


@functools.cache
def _native_splitter(rules: StringSplitter) -> _core.Splitter:
    return _core.Splitter(
        contractions=rules.contractions,
        max_chars=rules.max_chars,
        max_words=rules.max_words,
        max_word_chars=rules.max_word_chars,
    )
