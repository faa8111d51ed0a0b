"""Unlabeled text: documents of files, one after another."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

from mixling.data.readers import format_of_name, read_rows
from mixling.data.readers.rows import OnBadRow, nul_error, open_file, read_lines
from mixling.errors import ConfigError, DataError, near_miss


def read_texts(sources: Sequence[str | Path], *, text: str = "text") -> Iterator[str]:
    """Stream the documents of files: each line of a `.txt`, or the column `text` of every row of another format.

    A list of tokens is joined by spaces. Blank lines and empty cells are no documents.

    Args:
        sources: files as `data.readers.read_rows` reads them, and text files; each also with `.gz`.

    Raises:
        ConfigError: there is no source.
        DataError: a file that cannot be read, has no such column, or holds no text at all.
        UserError: a library that a format needs is not installed.
    """
    if not sources:
        raise ConfigError("no text; name at least one file")
    for source in sources:
        empty = True
        for document in _lines(Path(source)) if is_plain(str(source)) else _cells(source, text):
            if document.strip():
                empty = False
                yield document
        if empty:
            raise DataError("holds no text; leave it out", path=source)


def is_plain(name: str) -> bool:
    """Whether a file has a document on each line."""
    return format_of_name(name) == "text"


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
            message = f"column {column!r} holds {type(value).__name__} {str(value)[:40]!r}; a text is allowed"
            raise DataError(message, path=row.path, line=row.line)
        yield value or ""
