"""Divide texts that are longer than a model's maximum into windows that it can read.

Windows begin and end between words and overlap; the last one ends with the text. Each word belongs to one window, in
which it has most context, so that answers for words can be stitched together.
"""

from __future__ import annotations

import itertools
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from mixling.text.clean import clean, normalize
from mixling.text.config import TextConfig
from mixling.text.encoder import Text
from mixling.text.several import fit_texts
from mixling.text.vocabulary import Vocabulary
from mixling.text.windows import MAX_CONTEXT_CHARS
from mixling.text.words import word_spans

_OVERLAP = 4  # where words have answers, windows overlap by at least this fraction of their tokens: one in ...


class TextWindow(NamedTuple):
    """A part of a text.

    Attributes:
        text: the text.
        offset: characters of the whole text before this part (of a list: of its words joined by spaces).
        first, end: the characters of the whole text whose words belong to this window; 0 for several texts.
        side: of several, the number of the text that is divided.
    """

    text: Text
    offset: int
    first: int
    end: int
    side: int = 0


class TextWindows(NamedTuple):
    """A text in windows; `truncated`: it has more than a million characters; the rest is not read."""

    windows: list[TextWindow]
    truncated: bool


def text_windows(text: Text, config: TextConfig, vocabulary: Vocabulary, *, per_word: bool) -> TextWindows:
    """Return the windows of a text, which may be a single one.

    Of several, the longest is divided, and each window has the others, each up to its share of the maximum.

    Args:
        per_word: whether words have answers, which need context on both sides.
    """

    def sizes(words: Sequence[str]) -> list[int]:
        """Return the tokens of words."""
        if config.tokens == "words":
            return [1] * len(words)
        limit = config.max_word_chars
        normal = [normalize(word[:limit], lowercase=config.lowercase) for word in words]
        return [max(len(subwords), 1) for subwords in vocabulary.subwords(normal)]

    overlap = config.max_len // _OVERLAP if per_word else 0
    if isinstance(text, tuple):
        return _windows_of_several(text, config, sizes)
    words, spans, cut = _words(text, config)
    ranges = window_ranges(sizes(words), config.max_len, overlap)
    windows = []
    before = 0  # the first word that belongs to no window yet
    for number, (first, end) in enumerate(ranges):
        last = number + 1 == len(ranges)
        middle = end if last else (ranges[number + 1][0] + end + 1) // 2
        stop = spans[middle][0] if middle < len(spans) else MAX_CONTEXT_CHARS * 2
        part = text[first:end] if isinstance(text, list) else text[spans[first][0] : spans[end - 1][1]]
        windows.append(TextWindow(part, spans[first][0], spans[before][0], stop))
        before = middle
    return TextWindows(windows or [TextWindow(text, 0, 0, 0)], cut)


def window_ranges(sizes: Sequence[int], space: int, overlap: int) -> list[tuple[int, int]]:
    """Return first and last word (exclusive) of the windows over words of some numbers of tokens.

    A window has as many words as fit, at least one. The last has as many as fit before the end of the text.

    Args:
        space: tokens of a window.
        overlap: tokens that two windows have in common at least.
    """
    if not sizes:
        return []
    ends = list(itertools.accumulate(sizes))  # tokens up to and with each word
    begins = [0, *ends[:-1]]

    def window(first: int) -> tuple[int, int]:
        return first, max(bisect_right(ends, begins[first] + space), first + 1)

    ranges = [window(0)]
    while (last := ranges[-1])[1] < len(sizes):
        common = min(max(bisect_left(begins, ends[last[1] - 1] - overlap), last[0] + 1), last[1])
        following = window(common)
        ranges.append(following if following[1] > last[1] else window(last[1]))  # a long word may not fit with others
    if len(ranges) > 1:
        ranges[-1] = (min(bisect_left(begins, ends[-1] - space), len(sizes) - 1), len(sizes))
    return ranges


def _words(text: str | list[str], config: TextConfig) -> tuple[list[str], list[tuple[int, int]], bool]:
    """Return words with their characters in the text, and whether it has more than are read."""
    if isinstance(text, str):
        readable, cut = clean(text, MAX_CONTEXT_CHARS)
        spans = word_spans(readable, len(readable), contractions=config.contractions)
        return [readable[start:end] for start, end in spans], spans, cut
    ends = list(itertools.accumulate(len(word) + 1 for word in text))
    spans = [(end - 1 - len(word), end - 1) for word, end in zip(text, ends, strict=True)]
    kept = bisect_left(ends, MAX_CONTEXT_CHARS)
    return [clean(word, config.max_chars)[0] for word in text[:kept]], spans[:kept], kept < len(text)


def _windows_of_several(
    texts: tuple[str, ...], config: TextConfig, sizes: Callable[[Sequence[str]], list[int]]
) -> TextWindows:
    words, spans, cuts = zip(*(_words(text, config) for text in texts), strict=True)
    lengths = [sizes(part) for part in words]
    totals = list(map(sum, lengths))
    longest = totals.index(max(totals))
    others = [*totals[1:longest], *totals[:1], *totals[longest + 1 :]] if longest else totals[1:]
    room = max(int(fit_texts(np.array([[totals[longest], *others]]), config.max_len)[0, 0]), 1)
    windows = []
    for first, end in window_ranges(lengths[longest], room, 0):
        offset = spans[longest][first][0]
        part = texts[longest][offset : spans[longest][end - 1][1]]
        windows.append(TextWindow((*texts[:longest], part, *texts[longest + 1 :]), offset, 0, 0, longest))
    return TextWindows(windows or [TextWindow(texts, 0, 0, 0)], any(cuts))
