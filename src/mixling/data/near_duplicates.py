"""Validation texts that nearly stand in the training rows: they make a model look better than it is on new text."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass

import numpy as np

from mixling.data.dataset import Dataset
from mixling.text.clean import normalize
from mixling.text.encoder import Text
from mixling.text.words import split_words

JACCARD = 0.6  # of the sets of words: the words of both over those of either
MIN_WORDS = 4  # different words; texts of fewer are alike by chance
# What is looked at: texts and their bytes in all, and words that are compared, a second's work.
MAX_TEXTS, MAX_BYTES = 2_000, 1 << 20
MAX_TRAINING_TEXTS, MAX_TRAINING_BYTES = 100_000, 6 << 20
MAX_WORK = 20_000_000


@dataclass(frozen=True, slots=True)
class NearDuplicates:
    """How many of the validation texts that were looked at have a near-duplicate among the training texts looked at.

    complete: all training texts were looked at; else there may be more.
    """

    count: int
    looked_at: int
    complete: bool


def count_near_duplicates(train: Dataset, validation: Dataset, *, seed: int) -> NearDuplicates:
    """Count validation texts whose set of words has a Jaccard index of `JACCARD` or more with that of a training text.

    Words are lower-cased, without signs; of pairs and questions both texts are read as one. Takes at most a second or
    two: large sets are sampled.

    Two sets of that likeness share one of the rarest words of each: of n words the first n - ceil(JACCARD * n) + 1, in
    any order that is the same for all (Chaudhuri, Ganti and Kaushik 2006, prefix filter).
    """
    chance = np.random.default_rng(seed)
    texts = validation.subset(_sample(validation, MAX_TEXTS, MAX_BYTES, chance)).texts
    sets = [words for text in texts if len(words := _words(text)) >= MIN_WORDS]
    frequency = Counter(word for words in sets for word in words)
    rank = {word: number for number, word in enumerate(sorted(frequency, key=lambda word: (frequency[word], word)))}
    index: dict[int, list[int]] = {}
    for number, words in enumerate(sets):
        for key in _rarest(words, rank):
            index.setdefault(key, []).append(number)
    found: set[int] = set()
    chosen = _sample(train, MAX_TRAINING_TEXTS, MAX_TRAINING_BYTES, chance)
    complete = len(chosen) == len(train)
    left = MAX_WORK
    for text in train.subset(chosen).texts:
        if len(found) == len(sets):
            break
        if left < 0:
            complete = False
            break
        words = _words(text)
        if not words:
            continue
        lists = [index[key] for key in _rarest(words, rank) if key in index]
        candidates = set().union(*lists) - found
        left -= sum(map(len, lists)) + len(candidates) * len(words)
        for number in candidates:
            shared = len(words & sets[number])
            if shared >= JACCARD * (len(words) + len(sets[number]) - shared):
                found.add(number)
    return NearDuplicates(len(found), len(sets), complete or len(found) == len(sets))


def _sample(store: Dataset, most: int, most_bytes: int, chance: np.random.Generator) -> list[int]:
    """The indices of so many texts at most, in random order, and of so many bytes in all; at least one."""
    drawn = chance.permutation(len(store))[:most]
    sizes = store.subset(drawn).text_bytes()
    fitting = int(np.searchsorted(np.cumsum(sizes), most_bytes, side="right"))
    return drawn[: max(fitting, 1)].tolist()


def _words(text: Text) -> frozenset[str]:
    whole = text if isinstance(text, str) else " ".join(text)
    return frozenset(word for word in split_words(normalize(whole, lowercase=True)) if word.isalnum())


def _rarest(words: frozenset[str], rank: dict[str, int]) -> list[int]:
    """The ranks of as many of the rarest words as a near-duplicate must have one of; those without a rank are rarest,
    and left out."""
    known = [rank[word] for word in words if word in rank]
    needed = len(words) - math.ceil(JACCARD * len(words)) + 1 - (len(words) - len(known))
    return sorted(known)[: max(needed, 0)]
