"""CSV and TSV to rows, with the physical line of every error."""

from __future__ import annotations

import csv
import itertools
import re
from collections import deque
from collections.abc import Iterator

from mixling.data.readers.rows import MAX_LINE, OnBadRow, Row, check_header, nul_error
from mixling.errors import DataError

_NAMES = 20  # of a header that a message quotes


class _Lines:
    """Lines for the csv module; the lines that a broken row swallowed can be given back."""

    def __init__(self, lines: Iterator[str], number: int) -> None:
        self._lines, self._returned, self.number = lines, deque[str](), number
        self.row: list[str] = []  # the lines of the row that is being read

    def __iter__(self) -> _Lines:
        return self

    def __next__(self) -> str:
        line = self._returned.popleft() if self._returned else next(self._lines)
        self.row.append(line)
        self.number += 1
        return line

    def give_back(self, kept: int) -> None:
        """Keep the first lines of the row only: reading goes on after them."""
        self._returned.extendleft(reversed(self.row[kept:]))
        self.number -= len(self.row[kept:])


def read_delimited(lines: Iterator[str], path: str, on_bad_row: OnBadRow, delimiters: str) -> Iterator[Row]:
    """Rows of strings; the delimiter is the first of `delimiters` that stands in the header outside quotes.

    Quoting is CSV's in TSV too. Blank lines are no rows, and the names of the header are stripped.

    Raises:
        DataError: no header, no rows, or a row that `on_bad_row` does not skip.
    """
    csv.field_size_limit(max(csv.field_size_limit(), MAX_LINE))  # the module's limit is global: never lower it
    blank = 0
    for first in lines:
        if first.strip():
            break
        blank += 1
    else:
        raise DataError("is empty; a header and at least one row are needed", path=path)
    unquoted = re.sub(r'"[^"]*"?', "", first)
    delimiter = next((sign for sign in delimiters if sign in unquoted), delimiters[0])
    records = _records(_Lines(itertools.chain([first], lines), blank), delimiter, path)
    line, names = next(records)
    if isinstance(names, DataError):
        raise names
    header = check_header([name.strip() for name in names], path, line)
    empty = True
    for line, fields in records:
        empty = False
        if isinstance(fields, DataError):
            on_bad_row(fields)
        elif len(fields) != len(header):
            many = f'quote a field that holds {delimiter!r}: "a{delimiter}b"'
            remedy = many if len(fields) > len(header) else "give every field, empty ones too"
            message = f"{len(fields)} fields, but the header names {len(header)} ({_some(header)}); {remedy}"
            on_bad_row(DataError(message, path=path, line=line))
        else:
            yield Row(dict(zip(header, fields, strict=True)), path, line)
    if empty:
        raise DataError("has a header but no rows; at least one row is needed", path=path, line=blank + 1)


def _some(names: list[str]) -> str:
    """The first names of a header."""
    more = f", and {len(names) - _NAMES} more" if len(names) > _NAMES else ""
    return ", ".join(names[:_NAMES]) + more


def _records(source: _Lines, delimiter: str, path: str) -> Iterator[tuple[int, list[str] | DataError]]:
    """The first line and the fields of each record; reading goes on after the line of a error."""
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
            # Of UTF-16 read as UTF-8 the module sees stray returns and quotes: the NUL is what is wrong.
            nul = any("\0" in text for text in source.row[:kept])
            source.give_back(kept)
            yield line, nul_error(path, problem_line) if nul else DataError(message, path=path, line=problem_line)
            continue
        if any("\0" in text for text in source.row):
            yield line, nul_error(path, line)
        elif fields:
            yield line, fields


def _explain(reason: str, source: _Lines, delimiter: str, line: int) -> tuple[int, str]:
    """The line of the error in the row that starts at `line`, and what to say."""
    if "new-line character" in reason:
        message = "a carriage return without a line feed; convert the file: tr '\\r' '\\n' < OLD > NEW"
    elif "unexpected end" in reason:
        # The open field is the last one and runs to the end: its line feeds tell the line of its quote.
        last = next(csv.reader(list(source.row), delimiter=delimiter))[-1]
        line += sum(text.count("\n") for text in source.row) - last.count("\n")
        message = 'a quote (") is opened here and never closed; close it, or double a quote that belongs to the text'
    elif "field larger" in reason:
        message = f"a quoted field goes on for more than {MAX_LINE >> 20} MiB; close its quote"
    else:
        where = f" on line {source.number}" if source.number > line else ""
        message = (
            f'text follows a closing quote{where}; double each quote (") inside a quoted field, or close the field'
        )
    return line, message
