"""Split text in any language into words with character offsets.

A word is a run of letters, marks and digits; a punctuation mark, a symbol or a Han character is a word of its own, as
in multilingual BERT. With `contractions`, endings of English contractions are words: "isn't" is "is", "n't", and "it's"
is "it", "'s", as in the Penn Treebank and many public data sets; otherwise they are "isn", "'", "t" and "it", "'", "s".
The rules are computed in C (native/words.c), by the classes of one Unicode version.
"""

from __future__ import annotations

from mixling.native import _core


def split_words(text: str, *, contractions: bool = False) -> list[str]:
    """Return the words of a text, in order."""
    return [text[start:end] for start, end in word_spans(text, len(text), contractions=contractions)]


def word_spans(text: str, limit: int, *, contractions: bool = False) -> list[tuple[int, int]]:
    """Return start and end, in characters, of the first `limit` words of a text."""
    return _core.word_spans(text, limit, contractions)
