"""Clean text from outside, so that it can be hashed, stored and printed and its size is bounded.

Every replacement keeps the number of characters, so offsets into the cleaned text are valid in the user's text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from mixling.errors import DataError
from mixling.native import _core

# A lone surrogate cannot be encoded as UTF-8; NUL and the byte order mark separate words and have no other meaning.
_UNSAFE = re.compile("[\x00\ufeff\ud800-\udfff]")


def clean(text: str, max_chars: int) -> tuple[str, bool]:
    """Truncate `text` to `max_chars` characters and replace characters that cannot be processed.

    Returns:
        the text, with NUL and byte order marks as spaces and lone surrogates as U+FFFD; and whether it was truncated.
    """
    truncated = len(text) > max_chars
    if truncated:
        text = text[:max_chars]
    if _UNSAFE.search(text):
        text = _UNSAFE.sub(lambda match: "\ufffd" if match[0] >= "\ud800" and match[0] < "\ue000" else " ", text)
    return text, truncated


def normalize(word: str, *, lowercase: bool) -> str:
    """Return a word in Unicode's composed form (NFC), optionally in lower case."""
    if word.isascii():
        return word.lower() if lowercase else word
    return _core.normalize(word, lowercase, True)


def lower(text: str) -> str:
    """Return the text in lower case, as `str.lower` of a Python with Unicode 15.1."""
    return text.lower() if text.isascii() else _core.normalize(text, True, False)


def check_many(items: object, what: str) -> None:
    """Reject iterables that are not lists of items: strings, dictionaries, tables.

    Raises:
        DataError: `items` is one of these, or not iterable.
    """
    dimensions = getattr(items, "ndim", 1)
    if isinstance(items, str | bytes | Mapping) or not isinstance(items, Iterable) or dimensions != 1:
        shape = "" if dimensions == 1 else f" of {dimensions} dimensions"
        columns = list(getattr(items, "columns", ()))
        remedy = f"; give one of its columns, such as df[{columns[0]!r}]" if columns else ""
        if what == "texts" and dimensions == 2 and getattr(items, "shape", (0, 0))[1] == 2:
            pairs = f"list(zip(df[{columns[0]!r}], df[{columns[1]!r}]))" if columns else "list(map(tuple, X))"
            remedy += f"; for pairs of texts give {pairs}"
        raise DataError(f"got one {type(items).__name__}{shape}, not a list of {what}{remedy}")


def count_chars(text: object, number: int) -> int:
    """Count the characters of a text, of several texts, or of a list of words with the spaces between them.

    Raises:
        DataError: `text` is none of these.
    """
    if isinstance(text, str):
        return len(text)
    if isinstance(text, list) and all(isinstance(word, str) for word in text):
        return sum(map(len, text)) + len(text)
    if isinstance(text, tuple) and len(text) > 1 and all(isinstance(part, str) for part in text):
        return sum(map(len, text))
    kind = type(text).__name__
    raise DataError(
        f"item {number} is of type {kind}, not a text; allowed: a string, a tuple of several strings, a list of words"
    )
