"""Duplicates are those of an exhaustive comparison of all pairs, whatever the batches."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest

from mixling import ConfigError
from mixling.data import DuplicateFinder

WORDS = [f"word{number}" for number in range(400)]


def planted(count: int = 300, *, seed: int = 0) -> list[str]:
    """Sentences, and after each third one a copy of an earlier one with a few words changed."""
    chance = random.Random(seed)
    texts: list[str] = []
    for number in range(count):
        if number % 3 == 2:
            words = chance.choice(texts).split()
            for _ in range(chance.randint(0, 2)):
                words[chance.randrange(len(words))] = chance.choice(WORDS)
        else:
            words = chance.sample(WORDS, chance.randint(3, 20))
        texts.append(" ".join(words))
    return texts


def exhaustive(texts: list[str], threshold: float) -> list[float]:
    """The highest Jaccard index of each text with an earlier one that repeats nothing; 0 below the threshold."""
    kept: list[tuple[str, set[str]]] = []
    out = []
    for text in texts:
        words = set(text.split())
        equal = any(text == other for other, _ in kept)
        near = [len(words & other) / len(words | other) for _, other in kept if min(len(words), len(other)) >= 4]
        best = 1.0 if equal else max(near, default=0.0) if len(words) >= 4 else 0.0
        out.append(best if best >= threshold else 0.0)
        if not out[-1]:
            kept.append((text, words))
    return out


@pytest.mark.parametrize("threshold", [0.7, 0.8, 1.0])
def test_what_is_found_is_what_all_pairs_have(threshold: float) -> None:
    texts = planted()
    numbers, similarities = DuplicateFinder(threshold).add(texts)
    expected = np.array(exhaustive(texts, threshold))
    assert (numbers >= 0).sum() > 25
    np.testing.assert_allclose(similarities, expected, atol=1e-6)  # 1 in 250 at .7 may be missed; here none is
    for number, (first, similarity) in enumerate(zip(numbers.tolist(), similarities.tolist(), strict=True)):
        if first >= 0:
            one, two = set(texts[first].split()), set(texts[number].split())
            assert len(one & two) / len(one | two) == pytest.approx(similarity)
            assert numbers[first] == -1  # what is repeated is kept


def test_batches_change_nothing() -> None:
    texts = planted(seed=1)
    whole = DuplicateFinder().add(texts)
    finder = DuplicateFinder()
    parts = [finder.add(texts[first : first + 7]) for first in range(0, len(texts), 7)]
    for place in (0, 1):
        np.testing.assert_array_equal(whole[place], np.concatenate([part[place] for part in parts]))
    assert [len(column) for column in finder.add([])] == [0, 0]


def test_case_blanks_symbols_and_pairs() -> None:
    finder = DuplicateFinder()
    texts = [
        "The  parcel is\nlate",
        "the parcel IS late ",
        "the parcel is late!!",
        "Late: is the parcel",
        "",
        " ",
        "ÄRGER",
        "ärger",
    ]
    numbers, similarities = finder.add(texts)
    assert numbers.tolist() == [-1, 0, 0, 0, -1, 4, -1, 6]
    assert similarities.tolist() == [0, 1, 1, 1, 0, 1, 0, 1]
    numbers, _ = DuplicateFinder().add([("a b c", "d e f"), ("a b c", "d e f"), ["a", "b"], ["a", "b"]])
    assert numbers.tolist() == [-1, 0, -1, 2]


def test_many_texts_with_the_same_words_in_common_stay_fast() -> None:
    texts = [
        f"same words in every text but number{number} other{number} more{number} last{number}" for number in range(5000)
    ]
    assert not (DuplicateFinder().add(texts)[0] >= 0).any()


@pytest.mark.parametrize("threshold", [0, -1, 1.5, float("nan"), True, "x"])
def test_thresholds_out_of_range_are_refused(threshold: float) -> None:
    with pytest.raises(ConfigError, match=r"threshold: got .*; allowed: a number above 0, up to 1"):
        DuplicateFinder(threshold)


def test_all_pairs_of_a_block_are_compared_with_the_first() -> None:
    texts = [" ".join(words) for words in itertools.permutations(["one", "two", "three", "four"])]
    assert DuplicateFinder().add(texts)[0].tolist() == [-1, *[0] * (len(texts) - 1)]
