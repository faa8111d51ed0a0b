"""Text -> words with character offsets, in any language.

A word is a run of letters, marks and digits; a punctuation mark or symbol is a word of its own, and so is each
character of the scripts that write without spaces between words and are split by character in multilingual BERT (Han).
Python's `\\w` has no combining marks and would cut Hindi or Thai words at their vowels, hence the explicit classes.
"""

from __future__ import annotations

import functools
import itertools
import re
import unicodedata

_ASCII_SIGNS = r"!-/:-@\[-`{-~"
_HAN = "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003134f"


def split_words(text: str) -> list[str]:
    """The words of a text, in order."""
    return _pattern(text.isascii()).findall(text)


def word_spans(text: str, limit: int) -> list[tuple[int, int]]:
    """Start and end, in characters, of the first `limit` words of a text."""
    return [match.span() for match in itertools.islice(_pattern(text.isascii()).finditer(text), limit)]


@functools.cache
def _pattern(ascii_only: bool) -> re.Pattern[str]:
    signs = _ASCII_SIGNS if ascii_only else _ASCII_SIGNS + _sign_ranges() + _HAN
    return re.compile(rf"[^\s{signs}]+|[{signs}]")


def _sign_ranges() -> str:
    """Unicode's punctuation and symbols (categories P and S) beyond ASCII, as the inside of a character class."""
    signs = [code for code in range(0x80, 0x20000) if unicodedata.category(chr(code))[0] in "PS"]
    ranges: list[list[int]] = []
    for code in signs:
        if ranges and ranges[-1][1] == code - 1:
            ranges[-1][1] = code
        else:
            ranges.append([code, code])
    return "".join(f"{chr(first)}-{chr(last)}" for first, last in ranges)
