"""Recognize formats that have no extension of their own by how a file begins."""

from __future__ import annotations

import codecs
import io
import os
import re
import zlib
from contextlib import ExitStack
from pathlib import Path
from typing import BinaryIO, cast

from mixling.data.readers.files import open_file
from mixling.data.tag_schemes import has_marks
from mixling.errors import DataError

FASTTEXT_LABEL = re.compile(r"(?:^|(?<=\s))__label__\S*")
_HEAD = 1 << 13  # bytes that are looked at
_LINES = 200


def format_inside(data: BinaryIO, suffix: str) -> str | None:
    """Return "fasttext" or "conll" if a file begins so; the position in the file does not change.

    Args:
        suffix: `.txt`, or a table's, whose header no line with a label or a tag can be.
    """
    try:
        head = cast(io.BufferedReader, data).peek(_HEAD)[:_HEAD]
    except (EOFError, OSError, zlib.error):  # a damaged gzip file, which the reader reports
        return None
    text = head.removeprefix(codecs.BOM_UTF8).decode("utf-8", "replace")
    whole, end, _ = text.rpartition("\n")
    lines = [line for line in (whole if end else text).split("\n") if line.strip()][:_LINES]
    if not lines:
        return None
    labeled = sum(FASTTEXT_LABEL.search(line) is not None for line in lines)
    if lines[0].startswith("__label__") or (suffix == ".txt" and 2 * labeled > len(lines)):
        return "fasttext"
    return "conll" if suffix in (".txt", ".tsv") and _is_conll(lines) else None


def holds_rows(name: str) -> bool:
    """Return whether a `.txt` file has labels or tags, and is no plain text with a document on each line."""
    path = Path(name)
    if not os.path.isfile(name):  # what a pipe begins with would be gone
        return False
    try:
        with ExitStack() as stack:
            return format_inside(open_file(path, stack), ".txt") is not None
    except DataError:  # reported by the reader
        return False


def _is_conll(lines: list[str]) -> bool:
    """Return whether all lines have the same columns, one of them tags with marks."""
    rows = [line.split("\t") if "\t" in line else line.split() for line in map(str.rstrip, lines)]
    rows = [parts for parts in rows if not parts[0].startswith("#") and parts[0] != "-DOCSTART-"]
    widths = {len(parts) for parts in rows}
    if len(rows) < 2 or len(widths) != 1 or widths == {1}:
        return False
    return any(has_marks(column) for column in list(zip(*rows, strict=True))[1:])
