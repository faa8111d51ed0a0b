"""Read CSV and TSV, with the physical line of every error."""

from __future__ import annotations

import csv
import itertools
import re
from collections import deque
from collections.abc import Iterator

from mixling.data.readers.rows import MAX_LINE, OnBadRow, Row, check_header, nul_error
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


def read_delimited(lines: Iterator[str], path: str, on_bad_row: OnBadRow, delimiters: str) -> Iterator[Row]:
    """Stream rows of strings; the delimiter is the first of `delimiters` in the header, outside quotes.

    TSV is quoted like CSV. Blank lines are skipped, and column names are stripped.

    Raises:
        DataError: there is no header, or no row, or a bad row that `on_bad_row` does not skip.
    """
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
            quote = f'quote fields that contain {delimiter!r}: "a{delimiter}b"'
            remedy = quote if len(fields) > len(header) else "write every field, including empty ones"
            names = [*header[:_NAMES], f"and {len(header) - _NAMES} more"] if len(header) > _NAMES else header
            message = f"{len(fields)} fields, but the header has {len(header)} ({', '.join(names)}); {remedy}"
            on_bad_row(DataError(message, path=path, line=line))
        else:
            yield Row(dict(zip(header, fields, strict=True)), path, line)
    if empty:
        raise DataError("has a header but no rows; at least one row is required", path=path, line=blank + 1)


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
