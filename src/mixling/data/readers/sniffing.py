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
_FEWEST = 3  # lines that show what a file is
_LABELED = 5  # times that a label begins a line on average


def format_inside(data: BinaryIO, suffix: str) -> str | None:
    """Return "fasttext", "conll" or "tsv" if a file begins so; the position in the file does not change.

    Args:
        suffix: `.txt`, or a table's, whose header no line with a label or a tag can be.
    """
    lines = _first_lines(data)
    if not lines:
        return None
    labeled = sum(FASTTEXT_LABEL.search(line) is not None for line in lines)
    if lines[0].startswith("__label__") or (suffix == ".txt" and 2 * labeled > len(lines)):
        return "fasttext"
    if suffix in (".txt", ".tsv") and _is_conll(lines):
        return "conll"
    tabs = {line.count("\t") for line in lines}
    return "tsv" if suffix == ".txt" and len(lines) >= _FEWEST and len(tabs) == 1 and tabs != {0} else None


def begins_with_labels(data: BinaryIO) -> bool:
    """Return whether the first words of the lines repeat as labels do."""
    words = [line.split() for line in _first_lines(data)]
    labels = {line[0] for line in words}
    return len(words) >= _LABELED * len(labels) and len(labels) > 1 and all(len(line) > 1 for line in words)


def _first_lines(data: BinaryIO) -> list[str]:
    """Return the lines that a file begins with, without blank ones and the last, which may be cut."""
    try:
        head = cast(io.BufferedReader, data).peek(_HEAD)[:_HEAD]
    except (EOFError, OSError, zlib.error):  # a damaged gzip file, which the reader reports
        return []
    text = head.removeprefix(codecs.BOM_UTF8).decode("utf-8", "replace")
    whole, end, _ = text.rpartition("\n")
    return [line for line in (whole if end else text).split("\n") if line.strip()][:_LINES]


def holds_rows(name: str) -> bool:
    """Return whether a `.txt` file has labels, tags or columns, and is no plain text with a document on each line."""
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
    widths = set(map(len, rows))
    if len(rows) < 2 or len(widths) != 1 or widths == {1}:
        return False
    return any(has_marks(column) for column in list(zip(*rows, strict=True))[1:])
