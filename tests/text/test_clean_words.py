"""The one door for text, and words with their places in it."""

from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mixling.text import normalize, split_words, word_spans
from mixling.text.clean import clean

from ..references import words as reference

ANY_TEXT = st.text(st.characters(exclude_categories=()))  # surrogates, too
ASCII = st.text(st.characters(max_codepoint=127), max_size=60)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain", "plain"),
        ("a\x00b", "a b"),
        ("\ufeffa", " a"),
        ("a\ud83d\ude00b\udfff", "a\ufffd\ufffdb\ufffd"),
        ("\ue000 \ud7ff", "\ue000 \ud7ff"),  # the neighbors of the surrogates stay
        ("naïve 你好 😀", "naïve 你好 😀"),
    ],
)
def test_what_cannot_be_processed_is_replaced_character_by_character(text: str, expected: str) -> None:
    assert clean(text, 100) == (expected, False)


def test_text_is_cut_and_the_answer_states_so() -> None:
    assert clean("abcdef", 6) == ("abcdef", False)
    assert clean("abcdef", 5) == ("abcde", True)
    assert clean("", 5) == ("", False)


@given(ANY_TEXT, st.integers(1, 50))
def test_clean_text_keeps_its_length_and_can_be_encoded(text: str, limit: int) -> None:
    cleaned, truncated = clean(text, limit)
    assert len(cleaned) == min(len(text), limit)
    assert truncated == (len(text) > limit)
    cleaned.encode()
    assert clean(cleaned, limit) == (cleaned, False)


def test_a_line_of_ten_million_characters_costs_what_its_head_costs() -> None:
    line = "a\ud800" * 5_000_000
    tracemalloc.start()
    cleaned, truncated = clean(line, 6464)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 1_000_000  # no copy of the line, which has 20 MB
    assert truncated
    assert len(cleaned) == 6464


@pytest.mark.parametrize(
    ("word", "lowercase", "expected"),
    [
        ("CaSe", True, "case"),
        ("CaSe", False, "CaSe"),
        ("E\u0301te\u0301", True, "été"),
        ("E\u0301", False, "É"),
        ("ÀÉ", True, "àé"),
        ("", True, ""),
    ],
)
def test_words_are_composed_and_in_lower_case_if_asked(word: str, lowercase: bool, expected: str) -> None:
    assert normalize(word, lowercase=lowercase) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Hello, world!", ["Hello", ",", "world", "!"]),
        ("don't we'll", ["don", "'", "t", "we", "'", "ll"]),
        ("don’t", ["don", "’", "t"]),
        ("3.5% of U.S.", ["3", ".", "5", "%", "of", "U", ".", "S", "."]),
        ("a_b-c\t d\n", ["a", "_", "b", "-", "c", "d"]),
        ("naïve Größe", ["naïve", "Größe"]),
        ("cafe\u0301 x", ["cafe\u0301", "x"]),  # a combining accent is of the word
        ("हिन्दी में लिखा।", ["हिन्दी", "में", "लिखा", "।"]),  # vowel signs and virama are marks
        ("ภาษาไทย ง่ายมาก", ["ภาษาไทย", "ง่ายมาก"]),
        ("我爱北京。", ["我", "爱", "北", "京", "。"]),
        ("東京へ行く", ["東", "京", "へ", "行", "く"]),
        ("한국어 좋아요?", ["한국어", "좋아요", "?"]),
        ("مرحبا، كيف؟", ["مرحبا", "،", "كيف", "؟"]),
        ("good😀👍🏽", ["good", "😀", "👍", "🏽"]),
        ("€5 ≤ ½", ["€", "5", "≤", "½"]),
        ("a\u00a0b\u2003c\u3000d", ["a", "b", "c", "d"]),
        ("\ufffd", ["\ufffd"]),
        ("", []),
        (" \n\t", []),
    ],
)
def test_words_of_many_languages(text: str, expected: list[str]) -> None:
    assert split_words(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("it isn't, it's", ["it", "is", "n't", ",", "it", "'s"]),
        ("is n't it 's", ["is", "n't", "it", "'s"]),  # as the Penn Treebank writes it
        ("We'll DON'T they’re can’t", ["We", "'ll", "DO", "N'T", "they", "’re", "ca", "n’t"]),
        ("I'd i'm you've", ["I", "'d", "i", "'m", "you", "'ve"]),
        ("n't n'tx don'ts", ["n't", "n", "'", "tx", "don", "'", "ts"]),
        ("'some' l'eau d'accord", ["'", "some", "'", "l", "'", "eau", "d", "'", "accord"]),
        ("can 't", ["can", "'", "t"]),
    ],
)
def test_endings_of_english_contractions_are_words_if_asked(text: str, expected: list[str]) -> None:
    assert split_words(text, contractions=True) == expected


@given(ANY_TEXT)
def test_contractions_change_nothing_in_a_text_without_an_apostrophe(text: str) -> None:
    text = text.replace("'", " ").replace("’", " ")
    assert split_words(text, contractions=True) == split_words(text)


@given(ASCII)
def test_words_in_ascii_are_those_beside_other_characters(text: str) -> None:
    unicode_words = split_words(text + " é")
    assert split_words(text) == unicode_words[:-1]
    assert reference.split_words(clean(text, 99)[0]) == split_words(text)
    assert reference._pattern(True, False) != reference._pattern(False, False)


@given(ANY_TEXT, st.integers(0, 12), st.booleans())
def test_spans_are_the_words_in_order_and_leave_only_spaces_out(text: str, limit: int, contractions: bool) -> None:
    spans = word_spans(text, len(text), contractions=contractions)
    assert [text[start:end] for start, end in spans] == split_words(text, contractions=contractions)
    assert word_spans(text, limit, contractions=contractions) == spans[:limit]
    assert reference.word_spans(clean(text, len(text))[0], limit, contractions=contractions) == spans[:limit]
    covered = {location for start, end in spans for location in range(start, end)}
    assert sum(end - start for start, end in spans) == len(covered)
    left_out = [char for location, char in enumerate(text) if location not in covered]
    assert all(char.isspace() or char in "\0\ufeff" for char in left_out)
    assert not any(char.isspace() for word in split_words(text) for char in word)


@given(ANY_TEXT)
def test_offsets_of_clean_text_are_offsets_of_the_users(text: str) -> None:
    cleaned, _ = clean(text, 1000)
    for start, end in word_spans(cleaned, 1000):
        word, original = cleaned[start:end], text[start:end]
        assert word == original or word == "\ufffd"
