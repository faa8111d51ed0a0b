"""The terms of texts against loops over strings in Python's integers."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from mixling import TextConfig, TextEncoder
from mixling.text import FIRST, Distinct, Text, Words, pair_hashes, train_vocabulary
from mixling.text.ngrams import gram_hashes, word_hashes
from mixling.text.table import FURTHER, SHARED

TEXTS: list[Text] = [
    "The cat sat. the CAT sat on the mat",
    "",
    "Straße 42, naïve 猫 \U0001f600",
    "a",
    ["two words", "given"],
]


def mix(x: int) -> int:
    x = (x ^ (x >> 16)) * 0x85EBCA6B % 2**32
    x = (x ^ (x >> 13)) * 0xC2B2AE35 % 2**32
    return x ^ (x >> 16)


def fnv(numbers: list[int]) -> int:
    out = 2166136261
    for number in numbers:
        out = (out ^ number) * 16777619 % 2**32
    return out


def word(text: str, marks: int = 0) -> int:
    return mix(fnv(list(text.encode())) ^ mix(marks + 1))


def pair(first: int, second: int) -> int:
    return mix((first * 0x9E3779B1 + mix(second) + 7) % 2**32)


def grams(text: str, low: int, high: int, marks: int = 0) -> list[int]:
    padded = f" {text} "
    return [
        mix(fnv([ord(c) for c in padded[i : i + n]]) ^ mix(4096 * n + marks + 1))
        for n in range(low, high + 1)
        for i in range(len(padded) - n + 1)
    ]


def encoder_of(texts: list[Text], config: TextConfig) -> TextEncoder:
    return TextEncoder(config, train_vocabulary([t for t in texts if t], config))


def terms(texts: list[Text], encoder: TextEncoder) -> tuple[Words, Distinct]:
    rows = [item.words for item in encoder.encode(texts)]
    words = Words.of_table(encoder, 0, 2, 4)
    return words, Distinct.of_texts(rows, words.hashes)


def test_words_pairs_and_grams_are_those_of_the_formulas():
    words, marks = ["cat", "Straße", "", "\U0001f600", "cat", "dog"], [0, 1, 2, 3, 4, 15]
    assert word_hashes(words, np.array(marks)).tolist() == [word(*item) for item in zip(words, marks, strict=True)]
    first, second = np.array([0, 5, 2**32 - 1], np.uint32), np.array([7, 2**31, 2**32 - 1], np.uint32)
    assert pair_hashes(first, second).tolist() == [pair(int(a), int(b)) for a, b in zip(first, second, strict=True)]
    for marked in (False, True):
        hashes, starts = gram_hashes(words, np.array(marks), 2, 5, marked=marked)
        for i, (text, mark) in enumerate(zip(words, marks, strict=True)):
            expected = []
            for kept in dict.fromkeys((mark & ~FURTHER, mark)):
                expected += grams(text, 2, 5, kept) + [mix(kept + 0x51ED270B)] * marked
            expected += [word(text, mark)] * (mark & FURTHER > 0)
            assert sorted(hashes[starts[i] : starts[i + 1]].tolist()) == sorted(expected)


def test_hashes_are_frozen():
    assert word_hashes(["cat"], np.zeros(1, np.int32)).tolist() == [3147716737]
    hashes, starts = gram_hashes(["cat"], np.zeros(1, np.int32), 3, 3, marked=False)
    assert hashes.tolist() == [158359637, 3059530949, 2117456682]
    assert starts.tolist() == [0, 3]
    assert pair_hashes(np.array([1], np.uint32), np.array([2], np.uint32)).tolist() == [3164349562]


def test_each_text_has_its_distinct_words_and_pairs():
    encoder = encoder_of(TEXTS, TextConfig())
    words, distinct = terms(TEXTS, encoder)
    split = [
        ["the", "cat", "sat", ".", "the", "cat", "sat", "on", "the", "mat"],
        [],
        ["straße", "42", ",", "naïve", "猫", "\U0001f600"],
        ["a"],
        ["two words", "given"],
    ]
    assert distinct.sizes.tolist() == [len(set(item)) for item in split]
    for number, item in enumerate(split):
        rows = distinct.rows[distinct.word_texts == number]
        assert sorted(words.hashes[rows].tolist()) == sorted({word(w) for w in item})
        assert sorted(g for r in rows for g in words.grams[words.starts[r] : words.starts[r + 1]].tolist()) == sorted(
            g for w in set(item) for g in grams(w, 2, 4)
        )
        expected = {pair(word(a), word(b)) for a, b in itertools.pairwise(item)}
        assert sorted(distinct.pairs[distinct.pair_texts == number].tolist()) == sorted(expected)


def test_pairs_of_texts_have_their_marks_and_no_pair_of_words_between_them():
    pairs: list[Text] = [("a b", "b c"), ("b", "b")]
    encoder = encoder_of(pairs, TextConfig(segments=True, overlap=True))
    words, distinct = terms(pairs, encoder)
    a, b, c = word("a"), word("b", SHARED), word("c")
    assert sorted(words.hashes[distinct.rows].tolist()) == sorted([a, b, c, b])
    assert sorted(distinct.pairs.tolist()) == sorted([pair(a, b), pair(b, c)])
    for row in distinct.rows.tolist():
        of_second = word("c", 1) in words.part(row, row + 1).grams.tolist()
        assert of_second == (int(words.hashes[row]) == c)
    assert mix(SHARED + 0x51ED270B) in words.grams.tolist()


def test_a_table_s_later_rows_are_read_alone():
    encoder = encoder_of(["one two three"], TextConfig())
    encoder.encode(["one two"])
    size = len(encoder)
    encoder.encode(["three two"])
    later = Words.of_table(encoder, size, 2, 3)
    assert later.hashes.tolist() == [word("three")]
    assert Words.of_table(encoder, FIRST, 2, 3).hashes.tolist() == [word("one"), word("two"), word("three")]
    assert len(Words.of_table(encoder, len(encoder), 2, 3).hashes) == 0


@pytest.mark.parametrize("size", [1, 7, 1 << 20])
def test_words_are_hashed_alike_in_parts_of_any_size(size, monkeypatch):
    encoder = encoder_of(TEXTS, TextConfig())
    encoder.encode(TEXTS)
    whole = Words.of_table(encoder, 0, 2, 4)
    monkeypatch.setattr("mixling.text.ngrams._CHARS", size)
    parts = Words.of_table(encoder, 0, 2, 4)
    for name in ("hashes", "grams", "starts"):
        np.testing.assert_array_equal(getattr(whole, name), getattr(parts, name))
