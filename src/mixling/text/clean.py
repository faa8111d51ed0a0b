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


def normalise(word: str, *, lowercase: bool) -> str:
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
        raise DataError(f"got one {type(items).__name__}{shape}, not a list of {what}")
