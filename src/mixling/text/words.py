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

from mixling.text.unicode import SIGN, SPACE, tables

_ASCII_SIGNS, _ASCII_SPACES = r"!-/:-@\[-`{-~", r"\t-\r\x1c-\x20"


def split_words(text: str, *, contractions: bool = False) -> list[str]:
    """The words of a text, in order."""
    return _pattern(text.isascii(), contractions).findall(text)


def word_spans(text: str, limit: int, *, contractions: bool = False) -> list[tuple[int, int]]:
    """Start and end, in characters, of the first `limit` words of a text."""
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
        endings = rf"{word}+?(?={negation})|{negation}|['’](?:[sSdDmM]|[rRvV][eE]|[lL][lL])(?!{word})|"
    return re.compile(rf"{endings}{word}+|[{signs}]")
