"""Read CSV and TSV, with the physical line of every error."""

from __future__ import annotations

import csv
import itertools
import re
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

from mixling.data.readers.lines import MAX_LINE
from mixling.data.readers.rows import OnBadRow, Row, check_header, nul_error
from mixling.errors import DataError

_NAMES = 20  # column names quoted in a message


class _Lines:
    """Lines for the csv module; lines that a broken row consumed can be given back."""

    def __init__(self, lines: Iterator[str], number: int) -> None:
        self._lines, self._returned, self.number = lines, deque[str](), number
        self.row: list[str] = []  # the lines of the current row

    def __iter__(self) -> _Lines:
        return self

    def __next__(self) -> str:
        line = self._returned.popleft() if self._returned else next(self._lines)
        self.row.append(line)
        self.number += 1
        return line

    def give_back(self, kept: int) -> None:
        """Keep the first `kept` lines of the row, so that reading continues after them."""
        self._returned.extendleft(reversed(self.row[kept:]))
        self.number -= len(self.row[kept:])


def read_delimited(
    lines: Iterator[str], path: str, on_bad_row: OnBadRow, delimiters: str, *, first_line: int | None = None
) -> Iterator[Row]:
    """Stream rows of strings; the delimiter is the first of `delimiters` in the header, outside quotes.

    TSV is quoted like CSV. Blank lines are skipped, and column names are stripped.

    Args:
        first_line: the lines are the header and then a part of the file, which begins at this line and may be empty.

    Raises:
        DataError: there is no header, or no row, or a bad row that `on_bad_row` does not skip.
    """
    header = read_header(lines, path, delimiters)
    names, delimiter = header.names, header.delimiter
    empty = first_line is None
    if first_line is not None:
        header.source.number = first_line - 1
    for line, fields in header.records:
        empty = False
        if isinstance(fields, DataError):
            on_bad_row(fields)
        elif len(fields) != len(names):
            quote = f'quote fields that contain {delimiter!r}: "a{delimiter}b"'
            remedy = quote if len(fields) > len(names) else "write every field, including empty ones"
            some = [*names[:_NAMES], f"and {len(names) - _NAMES} more"] if len(names) > _NAMES else names
            message = f"{len(fields)} fields, but the header has {len(names)} ({', '.join(some)}); {remedy}"
            on_bad_row(DataError(message, path=path, line=line))
        else:
            yield Row(dict(zip(names, fields, strict=True)), path, line)
    if empty:
        raise DataError("has a header but no rows; at least one row is required", path=path, line=header.line)


@dataclass(frozen=True)
class Header:
    """The header of a table, and what follows it.

    Attributes:
        names: of the columns.
        lines: of the file that the header is written on; the first one has the number `line`.
    """

    names: list[str]
    lines: tuple[str, ...]
    line: int
    delimiter: str
    source: _Lines
    records: Iterator[tuple[int, list[str] | DataError]]


def read_header(lines: Iterator[str], path: str, delimiters: str) -> Header:
    """Read the first record; raises as `read_delimited`."""
    csv.field_size_limit(max(csv.field_size_limit(), MAX_LINE))  # the limit is global, so it is never lowered
    blank = 0
    for first in lines:
        if first.strip():
            break
        blank += 1
    else:
        raise DataError("is empty; a header and at least one row are required", path=path)
    unquoted = re.sub(r'"[^"]*"?', "", first)
    delimiter = next((sign for sign in delimiters if sign in unquoted), delimiters[0])
    source = _Lines(itertools.chain([first], lines), blank)
    records = _records(source, delimiter, path)
    line, names = next(records)
    if isinstance(names, DataError):
        raise names
    header = check_header([name.strip() for name in names], path, line)
    return Header(header, tuple(source.row), line, delimiter, source, records)


def _records(source: _Lines, delimiter: str, path: str) -> Iterator[tuple[int, list[str] | DataError]]:
    """Yield the first line and the fields (or the error) of each record; after an error, continue on the next line."""
    reader = csv.reader(source, delimiter=delimiter, strict=True)
    while True:
        source.row.clear()
        line = source.number + 1
        try:
            fields = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            problem_line, message = _explain(str(error), source, delimiter, line)
            kept = problem_line - line + 1
            # UTF-16 read as UTF-8 has stray returns and quotes, too, but the NUL explains the problem.
            nul = any("\0" in text for text in source.row[:kept])
            source.give_back(kept)
            yield line, nul_error(path, problem_line) if nul else DataError(message, path=path, line=problem_line)
            continue
        if any("\0" in text for text in source.row):
            yield line, nul_error(path, line)
        elif fields:
            yield line, fields


def _explain(reason: str, source: _Lines, delimiter: str, line: int) -> tuple[int, str]:
    """Return the line of the error in the row that starts at `line`, and a message."""
    if "new-line character" in reason:
        message = "a carriage return without a line feed; convert the file: tr '\\r' '\\n' < OLD > NEW"
    elif "unexpected end" in reason:
        # The open field is the last one and extends to the end, so its line feeds give the line of its quote.
        last = next(csv.reader(list(source.row), delimiter=delimiter))[-1]
        line += sum(text.count("\n") for text in source.row) - last.count("\n")
        message = 'a quote (") is opened here and never closed; close it, or double quotes that belong to the text'
    elif "field larger" in reason:
        message = f"a quoted field is longer than {MAX_LINE >> 20} MiB; close its quote"
    else:
        where = f" on line {source.number}" if source.number > line else ""
        message = (
            f'text follows a closing quote{where}; double each quote (") inside a quoted field, or close the field'
        )
    return line, message
