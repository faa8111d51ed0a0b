"""TSP against published values and against the hash written with Python's integers, one byte at a time."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mixling.text import tsp_features
from mixling.text.tsp import tsp_hash, tsp_hashes

GOLDEN = {
    "hello": (0x1E68D17C457BF117, 0x1AEC33D7DD3E8013),
    "internationalization": (0x99A2CD7F94CD7FB4, 0x94A10B69F60E8E68),
    "<BOS>": (0x0117E4D32992670B, 0x142AF9C29FD301C3),
    "café": (0x1DA18A410AEB2E92, 0xE12977CACEFFEBD8),
}
# What TensorFlow Lite's operator gives for four features.
PUBLISHED = {
    "hello": (0, 1, 1, 0),
    "world": (0, 1, 0, 0),
    "h": (0, 0, 1, 0),
    "w": (1, 0, 1, 0),
    "<EOS>": (0, 1, 0, 0),
}

M1, M2, LIMIT = 0xC6A4A7935BD1E995, 0x9E3779B97F4A7835, 1 << 64


def mixed(value: int) -> int:
    return value ^ (value >> 47)


def reference_codes(word: str, num_features: int) -> list[int]:
    raw = word.encode() or b"<null>"
    one, two = len(raw) * M1 % LIMIT, 0
    for at in range(0, len(raw), 8):
        subword = raw[at : at + 8]
        number = 0
        for location, byte in enumerate(subword):
            number |= (byte - 256 if byte >= 128 else byte) << (8 * location)
        number %= LIMIT
        if len(subword) == 8:
            number = mixed(number * M1 % LIMIT) * M1 % LIMIT
        one = (one ^ number) * M1 % LIMIT
        two ^= one
    one = mixed(one) * M1 % LIMIT
    two = mixed((two ^ one) * M2 % LIMIT) * M2 % LIMIT
    codes = [mixed(one), two]
    while 32 * len(codes) < num_features:
        low = mixed(codes[-2]) * M1 % LIMIT
        high = codes[-1] ^ low
        codes += [mixed(high * M2 % LIMIT) * M2 % LIMIT, mixed(low)]
    return codes


def reference_features(word: str, num_features: int) -> list[int]:
    bits = "".join(f"{code:064b}"[::-1] for code in reference_codes(word, num_features))
    pairs = [bits[at : at + 2] for at in range(0, 2 * num_features, 2)]  # the lower bit of a pair is written first
    return [{"00": 0, "10": 1, "01": -1, "11": 0}[pair] for pair in pairs]


@pytest.mark.parametrize("word", GOLDEN)
def test_the_hash_is_the_frozen_one(word: str) -> None:
    codes = tsp_hash(word, 64)
    assert codes.dtype == np.uint64
    assert tuple(codes.tolist()) == GOLDEN[word]


def test_the_features_are_the_published_ones() -> None:
    features = tsp_features(list(PUBLISHED), 4)
    assert features.dtype == np.int8
    assert [tuple(row) for row in features.tolist()] == list(PUBLISHED.values())


@settings(deadline=None, derandomize=True)
@given(st.lists(st.text(max_size=40), max_size=8), st.integers(1, 260))
def test_words_hashed_together_equal_the_reference(words: list[str], num_features: int) -> None:
    hashes, features = tsp_hashes(words, num_features), tsp_features(words, num_features)
    assert hashes.shape == (len(words), 2 * -(-num_features // 64))
    assert features.shape == (len(words), num_features)
    assert hashes.tolist() == [reference_codes(word, num_features) for word in words]
    assert features.tolist() == [reference_features(word, num_features) for word in words]


def test_an_empty_word_is_hashed_as_null() -> None:
    assert tsp_hash("", 64).tolist() == tsp_hash("<null>", 64).tolist()


def test_fewer_features_are_a_prefix_of_more() -> None:
    words = ["naïve", "日本語", "x" * 100]
    many = tsp_features(words, 1024)
    for num_features in (1, 63, 64, 65, 128, 129):
        assert np.array_equal(tsp_features(words, num_features), many[:, :num_features])
