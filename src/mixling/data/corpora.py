"""Stream the documents of files of unlabeled text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

from mixling.data.readers import format_of_name, read_rows
from mixling.data.readers.files import open_file
from mixling.data.readers.lines import read_lines
from mixling.data.readers.rows import OnBadRow, nul_error
from mixling.data.readers.sniffing import holds_rows
from mixling.errors import ConfigError, DataError, near_miss


def read_texts(sources: Sequence[str | Path], *, text: str = "text") -> Iterator[str]:
    """Stream the documents of files: each line of a `.txt`, or the column `text` of every row of another format.

    A list of tokens is joined by spaces. Blank lines and empty cells are skipped.

    Args:
        sources: text files and files that `data.readers.read_rows` reads, also with `.gz`.
        text: the column of the text.

    Raises:
        ConfigError: there is no source.
        DataError: a file cannot be read, does not have the column, or has no text.
        UserError: a library that a format needs is not installed.
    """
    if not sources:
        raise ConfigError("there is no text; name at least one file")
    for source in sources:
        empty = True
        for document in _lines(Path(source)) if is_plain(str(source)) else _cells(source, text):
            if document.strip():
                empty = False
                yield document
        if empty:
            raise DataError("contains no text; remove it from the list of files", path=source)


def is_plain(name: str) -> bool:
    """Whether a file is plain text, with a document on each line, and has no labels or tags."""
    return format_of_name(name) == "text" and not holds_rows(name)


def _lines(path: Path) -> Iterator[str]:
    with ExitStack() as stack:
        for number, line in enumerate(read_lines(open_file(path, stack), str(path)), 1):
            if "\0" in line:
                raise nul_error(str(path), number)
            yield line.rstrip("\r\n")


def _cells(source: str | Path, column: str) -> Iterator[str]:
    for row in read_rows(source, on_bad_row=OnBadRow("error"), columns=(column,)):
        if column not in row.values:
            message = f"no column {column!r}; {near_miss(column, row.values)}; choose a column with --text"
            raise DataError(message, path=row.path)
        value = row.values[column]
        if isinstance(value, list) and all(isinstance(item, str) for item in value):
            value = " ".join(value)
        if value is not None and not isinstance(value, str):
            message = f"column {column!r} is of type {type(value).__name__}: {str(value)[:40]!r}; allowed: a string"
            raise DataError(message, path=row.path, line=row.line)
        yield value or ""
