"""Split text in any language into words with character offsets.

A word is a run of letters, marks and digits; a punctuation mark, a symbol or a Han character is a word of its own, as
in multilingual BERT. Python's `\\w` excludes combining marks and would split Hindi or Thai words at their vowels, hence
the explicit classes. With `contractions`, endings of English contractions are words: "isn't" is "is", "n't", and "it's"
is "it", "'s", as in the Penn Treebank and many public data sets; otherwise they are "isn", "'", "t" and "it", "'", "s".
"""

from __future__ import annotations

import functools
import itertools
import re
import unicodedata

_ASCII_SIGNS = r"!-/:-@\[-`{-~"
_HAN = "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003134f"


def split_words(text: str, *, contractions: bool = False) -> list[str]:
    """Return the words of a text, in order."""
    return _pattern(text.isascii(), contractions).findall(text)


def word_spans(text: str, limit: int, *, contractions: bool = False) -> list[tuple[int, int]]:
    """Return start and end, in characters, of the first `limit` words of a text."""
    matches = _pattern(text.isascii(), contractions).finditer(text)
    return [match.span() for match in itertools.islice(matches, limit)]


@functools.cache
def _pattern(ascii_only: bool, contractions: bool) -> re.Pattern[str]:
    signs = _ASCII_SIGNS if ascii_only else _ASCII_SIGNS + _sign_ranges() + _HAN
    word = rf"[^\s{signs}]"
    endings = ""
    if contractions:
        negation = rf"[nN]['’][tT](?!{word})"
        endings = rf"{word}+?(?={negation})|{negation}|['’](?:[sSdDmM]|[rRvV][eE]|[lL][lL])(?!{word})|"
    return re.compile(rf"{endings}{word}+|[{signs}]")


def _sign_ranges() -> str:
    """Return Unicode's punctuation and symbols (categories P and S) beyond ASCII, as ranges of a character class."""
    signs = [code for code in range(0x80, 0x20000) if unicodedata.category(chr(code))[0] in "PS"]
    ranges: list[list[int]] = []
    for code in signs:
        if ranges and ranges[-1][1] == code - 1:
            ranges[-1][1] = code
        else:
            ranges.append([code, code])
    return "".join(f"{chr(first)}-{chr(last)}" for first, last in ranges)
