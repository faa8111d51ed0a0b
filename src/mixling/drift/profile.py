"""What a model file keeps of its data: counts of lengths, unknown words, answers and confidence, in two kilobytes.

The counts are of held-out texts, which are new to the model as later texts are. Words are unknown that are not among
the most frequent of the training texts; these are kept as a Bloom filter (Bloom 1970), from which no text can be read.
"""

from __future__ import annotations

import base64
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from hashlib import blake2b
from itertools import pairwise
from typing import Annotated

import numpy as np
import numpy.typing as npt
from pydantic import Field

from mixling.config import Config
from mixling.text.encoder import Text

# Upper ends of the bins, each included; the last bin is open.
LENGTH_BINS = (0, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144)
UNKNOWN_BINS = (0.0, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.7)
CONFIDENCE_BINS = (0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
KNOWN_WORDS = 1000
_FILTER_BITS = 8192
_PROBES = 4  # with 1,000 words, 2% of all others are taken for known ones
_LABEL_BYTES = 500  # of the most frequent answers, with their counts
# A run of letters and digits; a sign of Chinese, Japanese or Korean by itself.
_WORD = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]|[^\W_\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]+")

Count = Annotated[int, Field(ge=0)]


class Profile(Config):
    """Counts of the texts that a model was measured on, in the bins of this file."""

    texts: int = Field(ge=1, description="held-out texts that were answered, or that were counted if none was")
    known_words: str = Field(max_length=1400, description="Bloom filter of the most frequent words, base64")
    lengths: tuple[Count, ...] = Field(description="texts by their number of words")
    unknown: tuple[Count, ...] = Field(description="texts by their fraction of unknown words")
    answers: dict[str, Count] | None = Field(
        default=None, description="texts by answer, the most frequent ones; None: no labels"
    )
    confidence: tuple[Count, ...] | None = Field(
        default=None, description="texts by the top probability; None: no classes"
    )
    counted: tuple[Count, ...] | None = Field(
        default=None, description="texts by the top probability that `right` was counted of; None: of `confidence`"
    )
    right: tuple[Count, ...] | None = Field(default=None, description="those whose answer was right")
    median_length: float = Field(ge=0, description="words")
    mean_unknown: float = Field(ge=0, le=1, description="fraction of unknown words")
    mean_confidence: float | None = Field(default=None, ge=0, le=1)


def profile_words(text: Text) -> list[str]:
    """Return the words of a text as profiles count them, of both texts of a pair."""
    joined = text if isinstance(text, str) else " ".join(text)
    return _WORD.findall(joined.lower())


def bins(values: npt.ArrayLike, ends: Sequence[float]) -> npt.NDArray[np.intp]:
    """Return the bin of each value: the first whose upper end is not below it."""
    return np.searchsorted(np.asarray(ends, np.float64), np.asarray(values, np.float64) - 1e-9)


def counts(values: npt.ArrayLike, ends: Sequence[float]) -> tuple[int, ...]:
    """Return how many values are in each bin, the open one included."""
    return tuple(np.bincount(bins(values, ends), minlength=len(ends) + 1).tolist())


class KnownWords:
    """The Bloom filter of frequent words.

    Args:
        content: its bits, base64; None: none is set yet.
    """

    def __init__(self, content: str | None = None) -> None:
        raw = bytes(_FILTER_BITS // 8) if content is None else base64.b64decode(content)
        self._bits = bytearray(raw)
        self._seen: dict[str, bool] = {}

    def add(self, word: str) -> None:
        """Add a word."""
        for place in _places(word):
            self._bits[place >> 3] |= 1 << (place & 7)

    def __contains__(self, word: str) -> bool:
        if (known := self._seen.get(word)) is None:
            known = all(self._bits[place >> 3] >> (place & 7) & 1 for place in _places(word))
            if len(self._seen) < 100_000:
                self._seen[word] = known
        return known

    def content(self) -> str:
        """Return the bits, base64."""
        return base64.b64encode(self._bits).decode()


def _places(word: str) -> list[int]:
    digest = blake2b(word.encode("utf-8", "surrogatepass"), digest_size=2 * _PROBES).digest()
    return [
        int.from_bytes(digest[at:end], "little") % _FILTER_BITS for at, end in pairwise(range(0, 2 * _PROBES + 1, 2))
    ]


def unknown_fraction(split: Sequence[str], known: KnownWords) -> float:
    """Return what fraction of a text's words are unknown, 0 of a text without words."""
    return sum(word not in known for word in split) / max(1, len(split))


def profile_of(
    training: Iterable[Text],
    held_out: Iterable[Text],
    *,
    answers: Sequence[Sequence[str]] | None = None,
    confidence: npt.NDArray[np.floating] | None = None,
    counted: npt.NDArray[np.floating] | None = None,
    right: npt.NDArray[np.bool_] | None = None,
) -> Profile:
    """Return the profile of a model's data.

    Args:
        training: texts whose frequent words are known.
        held_out: texts that the model was not fitted on.
        answers: the labels that it gives to each of them, or to more such texts; None: it has no labels.
        confidence: (B,) its top probabilities; None: texts do not have one label each.
        counted: (R,) the top probabilities of the answers; None: `confidence`.
        right: (R,) whether each answer is right.
    """
    frequent = Counter(word for text in training for word in profile_words(text))
    known = KnownWords()
    for word, _ in frequent.most_common(KNOWN_WORDS):
        known.add(word)
    split = [profile_words(text) for text in held_out]
    sure = confidence if counted is None else counted
    lengths = list(map(len, split))
    fractions = [unknown_fraction(text, known) for text in split]
    return Profile(
        texts=len(split) if answers is None else len(answers),
        known_words=known.content(),
        lengths=counts(lengths, LENGTH_BINS),
        unknown=counts(fractions, UNKNOWN_BINS),
        median_length=float(np.median(lengths)),
        mean_unknown=round(float(np.mean(fractions)), 4),
        mean_confidence=None if confidence is None else round(float(confidence.mean()), 4),
        answers=None if answers is None else _most_frequent(answers),
        confidence=None if confidence is None else counts(confidence, CONFIDENCE_BINS),
        counted=None if counted is None else counts(counted, CONFIDENCE_BINS),
        right=None if sure is None or right is None else counts(sure[right], CONFIDENCE_BINS),
    )


def _most_frequent(answers: Sequence[Sequence[str]]) -> dict[str, int]:
    """Return the counts of answers, the most frequent ones as far as they fit."""
    kept: dict[str, int] = {}
    size = 0
    for label, count in Counter(label for labels in answers for label in labels).most_common():
        size += len(label.encode("utf-8", "surrogatepass")) + len(str(count)) + 6
        if size > _LABEL_BYTES:
            break
        kept[label] = count
    return kept
