"""The readable reference of native/words.c: the words of a text, with character offsets.

A word is a run of letters, marks and digits; a punctuation mark, a symbol or a Han character is a word of its own, as
in multilingual BERT. Python's `\\w` excludes combining marks and would split Hindi or Thai words at their vowels, hence
the explicit classes. With `contractions`, endings of English contractions are words: "isn't" is "is", "n't", and "it's"
is "it", "'s", as in the Penn Treebank and many public data sets; otherwise they are "isn", "'", "t" and "it", "'", "s".
"""

from __future__ import annotations

import functools
import itertools
import re

from .unicode import SIGN, SPACE, tables

_ASCII_SIGNS = r"!-/:-@\[-`{-~"
_ASCII_SPACES = r"\t-\r\x1c-\x20"


def split_words(text: str, *, contractions: bool = False) -> list[str]:
    """Return the words of a text, in order."""
    return _pattern(text.isascii(), contractions).findall(text)


def word_spans(text: str, limit: int, *, contractions: bool = False) -> list[tuple[int, int]]:
    """Return start and end, in characters, of the first `limit` words of a text."""
    matches = _pattern(text.isascii(), contractions).finditer(text)
    return [match.span() for match in itertools.islice(matches, limit)]


@functools.cache
def _pattern(ascii_only: bool, contractions: bool) -> re.Pattern[str]:
    # The classes are Unicode's of one version, and `\s` would be the interpreter's.
    signs, spaces = (_ASCII_SIGNS, _ASCII_SPACES) if ascii_only else map(tables().ranges, (SIGN, SPACE))
    word = rf"[^{spaces}{signs}]"
    endings = ""
    if contractions:
        negation = rf"[nN]['’][tT](?!{word})"
        # Only words before an apostrophe are searched for an ending, which takes time at each of their letters.
        whole = rf"{word}++(?!['’])"
        endings = rf"{whole}|{word}+?(?={negation})|{negation}|['’](?:[sSdDmM]|[rRvV][eE]|[lL][lL])(?!{word})|"
    return re.compile(rf"{endings}{word}+|[{signs}]")
