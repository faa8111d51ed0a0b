"""Text -> words with character offsets, in any language.

A word is a run of letters, marks and digits; a punctuation mark or symbol is a word of its own, and so is each
character of the scripts that write without spaces between words and are split by character in multilingual BERT (Han).
Python's `\\w` has no combining marks and would cut Hindi or Thai words at their vowels, hence the explicit classes.
With `contractions` the endings of English ones are words: "isn't" is "is", "n't", and "it's" is "it", "'s", as in the
Penn Treebank, whose way of writing many public data sets have; else they are "isn", "'", "t" and "it", "'", "s".
"""

from __future__ import annotations

import functools
import itertools
import re
import unicodedata

_ASCII_SIGNS = r"!-/:-@\[-`{-~"
_HAN = "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003134f"


def split_words(text: str, *, contractions: bool = False) -> list[str]:
    """The words of a text, in order."""
    return _pattern(text.isascii(), contractions).findall(text)


def word_spans(text: str, limit: int, *, contractions: bool = False) -> list[tuple[int, int]]:
    """Start and end, in characters, of the first `limit` words of a text."""
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
    """Unicode's punctuation and symbols (categories P and S) beyond ASCII, as the inside of a character class."""
    signs = [code for code in range(0x80, 0x20000) if unicodedata.category(chr(code))[0] in "PS"]
    ranges: list[list[int]] = []
    for code in signs:
        if ranges and ranges[-1][1] == code - 1:
            ranges[-1][1] = code
        else:
            ranges.append([code, code])
    return "".join(f"{chr(first)}-{chr(last)}" for first, last in ranges)
