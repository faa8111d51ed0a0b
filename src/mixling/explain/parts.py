"""Read a text, or the windows of a long one, without some of its words."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from mixling.errors import DataError
from mixling.text.clean import clean
from mixling.text.config import MOST_TOGETHER, TextConfig
from mixling.text.encoder import Encoded, Text, fit_parts
from mixling.text.long_texts import TextWindow
from mixling.text.words import word_spans

Logits = Callable[[list[Text]], Sequence[npt.NDArray[Any]]]
LogitsOfKept = Callable[[str, npt.NDArray[np.bool_]], npt.NDArray[Any] | None]
_Word = tuple[str, int, int, int]  # as in `WordEffect`

_BITS = tuple(tuple(mask >> bit & 1 for bit in range(7, -1, -1)) for mask in range(256))  # of a byte, highest first
_MAX_WORDS = 10_000  # each is left out in turn, at the cost of a prediction


class ReadPart:
    """A text, or a window of one, that is read without some of its words.

    Args:
        text: as it is read.
        spelled: its words; the characters between them separate or join no words.
        words: (N,) the index of each among the words of the whole text.
        own: those whose tags are from here.
        places: (N,) of several texts, the number of the one that each word is in.
        as_list: give words to the model, not a string.
    """

    def __init__(
        self,
        text: Text,
        spelled: list[str],
        *,
        words: npt.NDArray[np.int64],
        own: npt.NDArray[np.int64],
        places: Sequence[int],
        as_list: bool,
    ) -> None:
        self.words = words
        self.own = own
        self._spelled = spelled
        self._kind: type = list if as_list else type(text)
        number = len(text) if isinstance(text, tuple) else 0
        self._ends = np.searchsorted(np.asarray(places, np.int64), np.arange(number + 1)).tolist()

    def text(self) -> Text:
        """Return the text with all of its words."""
        return self._make(np.ones((1, len(self._spelled)), bool))[0]

    def logits(self, kept: npt.NDArray[np.bool_], logits: Logits, logits_of_kept: LogitsOfKept) -> npt.NDArray[Any]:
        """Return the logits (M, C) of this part of texts that keep some of all words (M, words of the whole text).

        Of a window, equal parts are computed once.
        """
        if kept.shape[1] == len(self.words):
            return self._distinct_logits(kept, logits, logits_of_kept)
        rows = kept[:, self.words]
        packed, inverse = np.unique(np.packbits(rows, axis=1), axis=0, return_inverse=True)
        distinct = np.unpackbits(packed, axis=1, count=rows.shape[1]).astype(bool)
        return self._distinct_logits(distinct, logits, logits_of_kept)[inverse.ravel()]

    def _distinct_logits(
        self, rows: npt.NDArray[np.bool_], logits: Logits, logits_of_kept: LogitsOfKept
    ) -> npt.NDArray[Any]:
        found = logits_of_kept(" ".join(self._spelled), rows) if self._kind is str and self._spelled else None
        return np.asarray(logits(self._make(rows))) if found is None else found

    def logits_of(self, word: int, kept: npt.NDArray[np.bool_], logits: Logits) -> npt.NDArray[Any]:
        """Return the logits (M, C) of a word, which is kept."""
        rows = kept[:, self.words]
        at = rows[:, : int(np.searchsorted(self.words, word))].sum(1)
        return np.stack([row[i] for row, i in zip(logits(self._make(rows)), at, strict=True)])

    def _make(self, coalitions: npt.NDArray[np.bool_]) -> list[Text]:
        """Return the text with the words (N,) of each coalition (M, N) only."""
        spelled = self._spelled
        if self._kind is str:
            return _join(spelled, coalitions)
        if self._kind is list:
            return [list(itertools.compress(spelled, row)) for row in coalitions.tolist()]
        ends = [*itertools.pairwise(self._ends)]
        return [
            tuple(" ".join(itertools.compress(spelled[begin:end], row[begin:end])) for begin, end in ends)
            for row in coalitions.tolist()
        ]


def _join(words: Sequence[str], coalitions: npt.NDArray[np.bool_]) -> list[Text]:
    """Return the words (N,) of each coalition (M, N), separated by spaces: a word is read as one between them, too.

    What eight words in succession contribute is put together once.
    """
    columns = []
    for number, column in enumerate(np.packbits(coalitions, axis=1).T):
        group = words[8 * number : 8 * number + 8]
        bits = column.tolist()
        made = {mask: f" {' '.join(itertools.compress(group, _BITS[mask]))}" for mask in set(bits)}
        columns.append(map(made.__getitem__, bits))
    return list(map("".join, zip(*columns, strict=True))) if columns else [""] * len(coalitions)


def read_parts(
    text: Text,
    config: TextConfig,
    encode: Callable[[Text], Encoded],
    divide: Callable[[Text], Sequence[TextWindow]] | None,
    *,
    as_list: bool,
) -> tuple[list[_Word], list[ReadPart], bool]:
    """Return the words of a text that a model reads, the windows that it reads them in, and whether there were more.

    Raises:
        DataError: there are too many.
    """
    words, truncated = _read_words(text, config, encode)
    windows = divide(text) if truncated and divide is not None else ()
    if len(windows) < 2:  # otherwise a word is too long, not the text
        everything = np.arange(len(words))
        spelled = [word for word, *_ in words]
        places = [part for *_, part in words]
        return (
            words,
            [ReadPart(text, spelled, words=everything, own=everything, places=places, as_list=as_list)],
            truncated,
        )
    read: list[list[_Word]] = []
    truncated = False
    for window in windows:
        found, cut = _read_words(window.text, config, encode)
        truncated |= cut
        shift = [0] * MOST_TOGETHER
        shift[window.side] = window.offset
        read.append([(word, start + shift[part], end + shift[part], part) for word, start, end, part in found])
    known = {_location(item): item for part in read for item in part}  # windows may overlap
    words = [known[location] for location in sorted(known)]
    if len(words) > _MAX_WORDS:
        raise DataError(
            f"the text has {len(words):,} words; texts of up to {_MAX_WORDS:,} are explained: shorten it (in Python, "
            "Predictor(..., too_long='truncate') explains its beginning)"
        )
    index = {location: number for number, location in enumerate(sorted(known))}
    parts = []
    for window, found in zip(windows, read, strict=True):
        numbers = np.array([index[_location(item)] for item in found], np.int64)
        begins = np.array([item[1] for item in found], np.int64)
        own = numbers[(window.first <= begins) & (begins < window.end)]
        spelled = [word for word, *_ in found]
        places = [part for *_, part in found]
        parts.append(ReadPart(window.text, spelled, words=numbers, own=own, places=places, as_list=as_list))
    return words, parts, truncated


def _location(word: _Word) -> tuple[int, int]:
    return word[3], word[1]


def _read_words(text: Text, config: TextConfig, encode: Callable[[Text], Encoded]) -> tuple[list[_Word], bool]:
    """Return the words of a text that a model reads, and whether there were more."""
    if isinstance(text, tuple):
        cleaned = [clean(part, config.max_chars) for part in text]
        spans = [word_spans(part, config.max_len + 1, contractions=config.contractions) for part, _ in cleaned]
        kept, shortened = fit_parts(spans, config.max_len)
        words = [
            (part[start:end], start, end, number)
            for number, ((part, _), spans_of_part) in enumerate(zip(cleaned, kept, strict=True))
            for start, end in spans_of_part
        ]
        return words, shortened or any(cut for _, cut in cleaned)
    if isinstance(text, str) and config.tokens == "words":
        clean_text, cut = clean(text, config.max_chars)
        found = word_spans(clean_text, config.max_len + 1, contractions=config.contractions)
        return [(clean_text[a:b], a, b, 0) for a, b in found[: config.max_len]], cut or len(found) > config.max_len
    encoded = encode(text)
    assert encoded.offsets is not None
    spelled = text if isinstance(text, list) else [clean(text, config.max_chars)[0][a:b] for a, b in encoded.offsets]
    return [(word, *span, 0) for word, span in zip(spelled, encoded.offsets, strict=False)], encoded.truncated
