"""The one door for text from outside: what passes here can be hashed, stored and printed, and its size is bounded.

Every replacement keeps the number of characters, so that offsets into the cleaned text are offsets into the user's.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping

from mixling.errors import DataError

# A lone surrogate cannot be encoded as UTF-8; NUL and the byte order mark separate words but mean nothing.
_UNSAFE = re.compile("[\x00\ufeff\ud800-\udfff]")


def clean(text: str, max_chars: int) -> tuple[str, bool]:
    """Cut `text` to `max_chars` characters and replace what cannot be processed.

    Returns:
        the text, with NUL and byte order marks as spaces and lone surrogates as U+FFFD; and whether it was cut.
    """
    truncated = len(text) > max_chars
    if truncated:
        text = text[:max_chars]
    if _UNSAFE.search(text):
        text = _UNSAFE.sub(lambda match: "\ufffd" if match[0] >= "\ud800" and match[0] < "\ue000" else " ", text)
    return text, truncated


def normalize(word: str, *, lowercase: bool) -> str:
    """One word in Unicode's composed form (NFC), in lower case if asked for."""
    if lowercase:
        word = word.lower()
    return word if word.isascii() else unicodedata.normalize("NFC", word)


def check_many(items: object, what: str) -> None:
    """Refuse what would be taken apart into other things than items: a string, a dictionary, a table.

    Raises:
        DataError: `items` is one of these, or nothing that has items.
    """
    dimensions = getattr(items, "ndim", 1)
    if isinstance(items, str | bytes | Mapping) or not isinstance(items, Iterable) or dimensions != 1:
        shape = "" if dimensions == 1 else f" of {dimensions} dimensions"
        columns = list(getattr(items, "columns", ()))
        remedy = f"; give one of its columns, such as df[{columns[0]!r}]" if columns else ""
        raise DataError(f"got one {type(items).__name__}{shape}, not a list of {what}{remedy}")


def count_chars(text: object, number: int) -> int:
    """Count the characters of a text, of both of a pair, or of words and the spaces between them.

    Raises:
        DataError: it is none.
    """
    if isinstance(text, str):
        return len(text)
    if isinstance(text, list) and all(isinstance(word, str) for word in text):
        return sum(map(len, text)) + len(text)
    if isinstance(text, tuple) and len(text) == 2 and all(isinstance(part, str) for part in text):
        return len(text[0]) + len(text[1])
    kind = type(text).__name__
    raise DataError(
        f"item {number} is of type {kind}, not a text; allowed: a string, a tuple of two strings, a list of words"
    )
