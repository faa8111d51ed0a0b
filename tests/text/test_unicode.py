"""The tables of characters: one digest for every interpreter and every implementation, and Python's own functions."""

from __future__ import annotations

import random
import sys
import unicodedata

import pytest

from mixling.native import _core
from mixling.text import normalize, split_words
from mixling.text.clean import lower

from ..references import unicode as reference
from ..references.unicode import tables

VERSION = tuple(map(int, unicodedata.unidata_version.split(".")))
SAME_VERSION = tables().version == VERSION


def compose(text: str) -> str:
    """The composed form in C."""
    return _core.normalize(text, False, True)


@pytest.mark.slow
def test_characters_are_those_of_the_frozen_version() -> None:
    """tests/native/test_text.py has the digest of all; here few of those that have no name stand for the others."""
    end = 0
    for first, end, properties in tables().runs:
        for code in range(first, end, 1 if end - first < 50_000 else 61):
            char = chr(code)
            if not char.isascii() and not 0xD800 <= code < 0xE000:
                assert (reference.lower(char), reference.compose(char)) == (lower(char), compose(char)), hex(code)
                assert code == 0xFEFF or len(split_words(f"é{char}é")) == 1 + (properties & 3)
    assert end == sys.maxunicode + 1


def test_classes_are_those_of_the_interpreter_where_it_knows_the_character() -> None:
    for code in range(0x80, 0x20000):
        char = chr(code)
        category = unicodedata.category(char)
        if category in ("Cn", "Cs") or char == "\ufeff" or "\u3400" <= char <= "\u9fff" or "\uf900" <= char <= "\ufaff":
            continue
        expected = 2 if char.isspace() else 3 if category[0] in "PS" else 1
        allowed = {expected, 1} if tables().version < VERSION else {expected}  # what was not assigned then is a letter
        assert len(split_words(f"é{char}é")) in allowed, hex(code)


def test_a_word_does_not_depend_on_the_interpreter() -> None:
    assert split_words("great🫨 film") == ["great", "🫨", "film"]  # of Unicode 15.0; Python 3.11 has 14.0


def test_lower_case_and_composition_are_those_of_the_interpreter() -> None:
    rng = random.Random(0)
    marks = [char for char in map(chr, range(0x300, 0x20000)) if unicodedata.combining(char)]
    composed = [char for char in map(chr, range(0x30000)) if unicodedata.decomposition(char)]
    jamo = [chr(code) for code in range(0x1100, 0x1200)] * 3
    pool = [*marks, *composed, *jamo, *"ΣΣΣΣ" * 50, *"aA'.·:\u00ad" * 20]
    pool += [part for char in composed for part in unicodedata.normalize("NFD", char)]
    pool += [chr(rng.randrange(0xAC00, 0xD7A4)) for _ in range(300)]
    for _ in range(20_000):
        text = "".join(rng.choices(pool, k=rng.randint(1, 8)))
        assert lower(text) == text.lower(), ascii(text)
        assert compose(text) == unicodedata.normalize("NFC", text), ascii(text)
        assert normalize(text, lowercase=True) == unicodedata.normalize("NFC", text.lower())


@pytest.mark.skipif(not SAME_VERSION, reason="this interpreter has another Unicode version")
def test_every_character_is_that_of_the_interpreter_of_the_same_version() -> None:
    for code in range(sys.maxunicode + 1):
        char = chr(code)
        assert lower(char) == char.lower()
        assert compose(char) == unicodedata.normalize("NFC", char)
