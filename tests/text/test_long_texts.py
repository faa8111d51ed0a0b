"""Long texts in windows: every word is read, fits, and belongs to one window that gives it context."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mixling import TextConfig, TextEncoder
from mixling.text import MinHash, Text, train_vocabulary, word_spans
from mixling.text.long_texts import text_windows, window_ranges

TEXT = "Don't panic! 他们失了308分。 The café isn't  open,\nsaid Ümit: go home (now) and rest until noon, then 🙂 x."


@given(st.lists(st.integers(1, 9), max_size=60), st.integers(1, 20), st.integers(0, 5))
def test_windows_have_all_words_and_are_full(sizes: list[int], space: int, overlap: int) -> None:
    ranges = window_ranges(sizes, space, min(overlap, space - 1))
    assert {word for first, end in ranges for word in range(first, end)} == set(range(len(sizes)))
    for first, end in ranges:
        assert sum(sizes[first:end]) <= space or end == first + 1
        assert sum(sizes[first : end + 1]) > space or end == len(sizes)
    for before, after in pairwise(ranges):
        assert before[0] < after[0] <= before[1] < after[1]
        if max(sizes) == 1:
            assert before[1] - after[0] >= min(overlap, space - 1)
    if sum(sizes) >= space and max(sizes) == 1:
        assert ranges[-1][1] - ranges[-1][0] == space


@pytest.mark.parametrize("tokens", ["words", "subwords"])
@pytest.mark.parametrize("contractions", [False, True])
@pytest.mark.parametrize("max_len", [3, 8, 11])
@pytest.mark.parametrize("as_list", [False, True])
def test_each_word_belongs_to_one_window(tokens: str, contractions: bool, max_len: int, as_list: bool) -> None:
    config = TextConfig(
        projection=MinHash(num_features=64, num_hashes=4), max_len=max_len, contractions=contractions, tokens=tokens
    )
    vocabulary = train_vocabulary(["the cat isn't here ##x panic open home"], config)
    encoder = TextEncoder(config, vocabulary)
    spans = word_spans(TEXT, len(TEXT), contractions=contractions)
    words = [TEXT[start:end] for start, end in spans]
    text: Text = words if as_list else TEXT
    if as_list:
        spans, start = [], 0
        for word in words:
            spans.append((start, start + len(word)))
            start += len(word) + 1
    windows, truncated = text_windows(text, config, vocabulary, per_word=True)
    assert not truncated
    assert len(windows) > 2
    read = []
    for window in windows:
        encoded = encoder.encode([window.text], offsets=True)[0]
        assert encoded.offsets is not None
        here = [(start + window.offset, end + window.offset) for start, end in encoded.offsets]
        assert set(here) <= set(spans)
        read += [span for span in here if window.first <= span[0] < window.end]
    assert read == spans


@pytest.mark.parametrize("longer", [0, 1])
def test_windows_of_pairs_have_the_shorter_text(longer: int) -> None:
    config = TextConfig(projection=MinHash(num_features=64), max_len=12)
    vocabulary = train_vocabulary([TEXT], config)
    short, long = "is it open", " ".join(f"w{i}" for i in range(30))
    pair = (long, short) if longer == 0 else (short, long)
    windows, _ = text_windows(pair, config, vocabulary, per_word=False)
    read: list[str] = []
    for window in windows:
        assert isinstance(window.text, tuple)
        assert window.text[1 - longer] == short
        read += window.text[longer].split()
        assert not TextEncoder(config, vocabulary).encode([window.text])[0].truncated
    assert sorted(set(read)) == sorted(long.split())


def test_texts_without_words_and_of_a_million_characters() -> None:
    config = TextConfig(projection=MinHash(num_features=64), max_len=1000)
    vocabulary = train_vocabulary([TEXT], config)
    assert len(text_windows(" ", config, vocabulary, per_word=False).windows) == 1
    windows, truncated = text_windows("ab " * 400_000, config, vocabulary, per_word=False)
    assert truncated
    assert len(windows) == -(-(1 << 20) // 3 // 1000)
