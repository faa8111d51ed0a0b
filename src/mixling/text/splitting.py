"""Split texts into words, in this process or in several; what depends on the order of the texts is done afterwards."""

from __future__ import annotations

import functools
import itertools
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from mixling.errors import UserError
from mixling.native import _core
from mixling.workers import SPAWN, begin_as_worker, num_workers

# Fewer characters are split in this process: starting another one takes as long as splitting about this many.
_WORTH = 8 << 20
_AHEAD = 4  # chunks that are sent to each process before it has finished the first


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


Splitter = Callable[[Sequence[Any]], SplitTexts]


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


def split_in_order(make: Callable[[], Splitter], chunks: Iterable[Sequence[Any]]) -> Iterator[tuple[Any, SplitTexts]]:
    """Yield each chunk of texts with its words, in order.

    Args:
        make: returns what splits a chunk; called in each process, and so picklable.

    Raises:
        UserError: a process died.
    """
    number = num_workers()
    if number > 1:
        known, chunks = _enough(iter(chunks))
        if known:
            with ProcessPoolExecutor(number, SPAWN, _begin, (make,)) as pool:
                try:
                    yield from _through(pool, chunks, ahead=_AHEAD * number)
                except BrokenProcessPool:
                    raise UserError(
                        "a process that split texts died; if memory is short, set OMP_NUM_THREADS=1"
                    ) from None
                finally:
                    pool.shutdown(cancel_futures=True)
            return
    split = make()
    for chunk in chunks:
        yield chunk, split(chunk)


def _enough(chunks: Iterator[Sequence[Any]]) -> tuple[bool, Iterator[Sequence[Any]]]:
    """Return whether several processes are worth their start, and all chunks."""
    first: list[Sequence[Any]] = []
    size = 0
    for chunk in chunks:
        first.append(chunk)
        size += sum(map(_num_chars, chunk))
        if size >= _WORTH:
            return True, itertools.chain(first, chunks)
    return False, iter(first)


def _num_chars(text: Any) -> int:
    return len(text) if isinstance(text, str) else sum(map(len, text))


def _through(
    pool: ProcessPoolExecutor, chunks: Iterable[Sequence[Any]], *, ahead: int
) -> Iterator[tuple[Any, SplitTexts]]:
    sent: deque[tuple[Any, Future[SplitTexts]]] = deque()
    for chunk in chunks:
        sent.append((chunk, pool.submit(_split, chunk)))
        if len(sent) > ahead:
            done, result = sent.popleft()
            yield done, result.result()
    for done, result in sent:
        yield done, result.result()


_splitter: Splitter | None = None  # of a process that splits


def _begin(make: Callable[[], Splitter]) -> None:
    global _splitter
    begin_as_worker()
    _splitter = make()


def _split(chunk: Sequence[Any]) -> SplitTexts:
    assert _splitter is not None
    return _splitter(chunk)
