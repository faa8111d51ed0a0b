"""Find validation texts that are nearly equal to training texts, which make a model look better than it is."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from mixling.data.dataset import Dataset
from mixling.text.clean import normalize
from mixling.text.encoder import Text
from mixling.text.splitting import StringSplitter

JACCARD = 0.6  # of the sets of words: size of the intersection over size of the union
MIN_WORDS = 4  # distinct words; shorter texts are similar by chance
# Limits on texts, their total bytes, and words that are compared, for about a second of work.
MAX_TEXTS = 2_000
_MAX_BYTES = 1 << 20
MAX_TRAINING_TEXTS = 100_000
MAX_TRAINING_BYTES = 6 << 20
MAX_WORK = 20_000_000
_TOGETHER = 2048  # texts that are split at a time
_MAX_CHARS = (1 << 31) - 1


@dataclass(frozen=True, slots=True)
class NearDuplicates:
    """The number of checked validation texts with a near-duplicate among the checked training texts.

    Attributes:
        count: validation texts with a near-duplicate.
        looked_at: validation texts that were checked.
        complete: whether all training texts were checked; otherwise there may be more.
        pairs: the index of each such validation text, and of a training text that is nearly equal.
    """

    count: int
    looked_at: int
    complete: bool
    pairs: tuple[tuple[int, int], ...] = field(default=(), compare=False, repr=False)


def count_near_duplicates(train: Dataset, validation: Dataset, *, seed: int, effort: int = 1) -> NearDuplicates:
    """Count validation texts whose set of words has a Jaccard index of at least `JACCARD` with a training text's.

    Words are in lower case, symbols are ignored; the two texts of a pair or question are joined. Large sets are
    sampled, so that this takes a second or two at most, or `effort` times as long.

    Two sets that are this similar share one of the rarest words of each: of n words, one of the first
    n - ceil(JACCARD * n) + 1 in any fixed order (the prefix filter of Chaudhuri, Ganti and Kaushik 2006).
    """
    rng = np.random.default_rng(seed)
    drawn = _sample(validation, effort * MAX_TEXTS, effort * _MAX_BYTES, rng)
    all_sets = zip(drawn, word_sets(validation.subset(drawn).texts), strict=True)
    of_validation = [(index, words) for index, words in all_sets if len(words) >= MIN_WORDS]
    sets = [words for _, words in of_validation]
    frequency = Counter(word for words in sets for word in words)
    rank = {word: number for number, word in enumerate(sorted(frequency, key=lambda word: (frequency[word], word)))}
    index: dict[int, list[int]] = {}
    for number, words in enumerate(sets):
        for key in _rarest(words, rank):
            index.setdefault(key, []).append(number)
    duplicates: dict[int, int] = {}
    chosen = _sample(train, effort * MAX_TRAINING_TEXTS, effort * MAX_TRAINING_BYTES, rng)
    complete = len(chosen) == len(train)
    work = 0
    for training_index, words in zip(chosen, word_sets(train.subset(chosen).texts), strict=True):
        if len(duplicates) == len(sets):
            break
        if work > effort * MAX_WORK:
            complete = False
            break
        lists = [index[key] for key in _rarest(words, rank) if key in index]
        candidates = set().union(*lists).difference(duplicates)  # other than `-`, it does not walk over all of them
        work += sum(map(len, lists)) + len(candidates) * len(words)
        for number in candidates:
            if are_near(words, sets[number]):
                duplicates[number] = training_index
    pairs = tuple(sorted((of_validation[number][0], found) for number, found in duplicates.items()))
    return NearDuplicates(len(duplicates), len(sets), complete or len(duplicates) == len(sets), pairs)


def are_near(first: frozenset[str], second: frozenset[str]) -> bool:
    """Return whether the Jaccard index of two sets of words is at least `JACCARD`."""
    if min(len(first), len(second)) < JACCARD * max(len(first), len(second)):
        return False
    shared = len(first & second)
    return shared >= JACCARD * (len(first) + len(second) - shared)


def _sample(store: Dataset, max_texts: int, max_bytes: int, rng: np.random.Generator) -> list[int]:
    """Sample indices of texts up to a number and a total size in bytes; at least one."""
    drawn = rng.permutation(len(store))[:max_texts]
    sizes = store.subset(drawn).text_bytes()
    fitting = int(np.searchsorted(np.cumsum(sizes), max_bytes, side="right"))
    fitting_rows: list[int] = drawn[: max(fitting, 1)].tolist()
    return fitting_rows


def word_sets(texts: Sequence[Text]) -> Iterator[frozenset[str]]:
    """Yield the words of each text that are compared."""
    for first in range(0, len(texts), _TOGETHER):
        part = [text if isinstance(text, str) else " ".join(text) for text in texts[first : first + _TOGETHER]]
        distinct, index, lengths = compared_words(part)
        ends = np.cumsum(lengths).tolist()
        words = [distinct[number] for number in index.tolist()]
        yield from (frozenset(words[begin:end]) for begin, end in zip([0, *ends], ends, strict=False))


def compared_words(texts: Sequence[str]) -> tuple[list[str], npt.NDArray[np.int32], npt.NDArray[np.int64]]:
    """Return the words of texts that are compared: distinct ones, the index of each, and how many a text has."""
    split = StringSplitter(contractions=False, max_chars=_MAX_CHARS)
    found = split([normalize(text, lowercase=True) for text in texts])
    compared = np.array([word.isalnum() for word in found.words], bool)[found.index]
    ends = np.cumsum(np.append(0, compared))[np.append(0, np.cumsum(found.lengths))]
    return found.words, found.index[compared], np.diff(ends)


def _rarest(words: frozenset[str], rank: dict[str, int]) -> list[int]:
    """Return the ranks of the rarest words; a near-duplicate must have at least one of them.

    Words without a rank are the rarest, but no validation text has them, so they are left out.
    """
    known = [rank[word] for word in words if word in rank]
    needed = len(words) - math.ceil(JACCARD * len(words)) + 1 - (len(words) - len(known))
    return sorted(known)[: max(needed, 0)]
