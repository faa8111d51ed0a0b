"""Find where the records of a CSV file begin, as the reader of CSV (`mixling.data.readers.delimited`) would."""

from __future__ import annotations

import codecs
import io
import re
from collections.abc import Iterator

from mixling.data.readers.dialects import Dialect
from mixling.data.readers.lines import MAX_LINE
from mixling.errors import DataError

_ESCAPED = re.compile(rb"""\\[\\"']""")


def record_starts(data: io.BufferedReader, path: str, dialect: Dialect, first: int) -> Iterator[tuple[int, int]]:
    """Yield byte and line (from 1) of the first record after the header, and of all later ones.

    Without a record after the header, that is the end of the file.
    After a quoted field that is longer than the reader accepts, no more are found.

    Args:
        data: the file at its beginning, UTF-8.
        first: the line after the header.

    Raises:
        DataError: a line is too long.
    """
    offset = 0
    opened = 0
    number = 0
    is_open = False
    delimiter = dialect.delimiter.encode()
    quote = dialect.quote.encode()
    for number, line in enumerate(iter(lambda: data.readline(MAX_LINE + 1), b""), 1):
        if len(line) > MAX_LINE:
            message = f"the line is longer than {MAX_LINE >> 20} MiB; write one row per line, ended by a line feed"
            raise DataError(message, path=path, line=number)
        if number >= first:
            if not is_open:
                yield offset, number
            if quote and (is_open or quote in line):
                was_open = is_open
                text = _ESCAPED.sub(b"--", line) if dialect.backslash else line
                is_open = ends_open(text.removeprefix(codecs.BOM_UTF8), is_open, delimiter, quote)
                opened = opened + len(line) if was_open else len(line)
                if is_open and opened > MAX_LINE:
                    return
        offset += len(line)
    if number < first:
        yield offset, number + 1


def ends_open(line: bytes, is_open: bool, delimiter: bytes, quote: bytes) -> bool:
    """Return whether a line ends inside a quoted field; after an error the reader continues on the next line.

    Args:
        is_open: it begins inside of one.
    """
    at = 0
    if not is_open and line.startswith(quote):
        is_open = True
        at = 1
    while True:
        if is_open:
            if (at := _closing_quote(line, at, quote)) < 0:
                return True
            if not line.startswith((delimiter, b"\r\n", b"\n"), at):
                return False  # an error, or the end
        end = line.find(delimiter, at)
        if not is_open and b"\r" in line[at : end if end >= 0 else len(line)].removesuffix(b"\r\n"):
            return False  # an error
        if end < 0:
            return False
        at = end + 1
        is_open = line.startswith(quote, at)
        at += is_open


def _closing_quote(line: bytes, at: int, quote: bytes) -> int:
    """Return the index after the quote that closes a field, where two quotes are one of the field; -1: none does."""
    while (at := line.find(quote, at)) >= 0:
        at += 1
        if not line.startswith(quote, at):
            return at
        at += 1
    return -1
