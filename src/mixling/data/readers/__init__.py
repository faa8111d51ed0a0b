"""Stream the rows of CSV, TSV, JSONL, Parquet and CoNLL files (each also compressed) and of hub data sets.

Each format has a module here; file name extensions are defined in `_FORMATS`. JSON that is not one object per line
(arrays, pandas' tables, SQuAD's files) is read at once; fastText's and CoNLL's files are recognized by their first
lines, too.

Errors of single rows go to `OnBadRow`, which raises or counts them. Errors of the file (truncated gzip, bytes that are
not UTF-8, a bad header, a corrupt footer) are always raised, since rows could be lost unnoticed.
"""

from __future__ import annotations

import codecs
import io
import os
from collections.abc import Collection, Iterator
from contextlib import ExitStack
from pathlib import Path, PurePath
from typing import BinaryIO, cast

from mixling.data.readers.files import PACKED, STDIN, open_file, open_stdin
from mixling.data.readers.lines import Texts, lines_of, read_line_blocks
from mixling.data.readers.packed import name_in_zip
from mixling.data.readers.rows import OnBadRow, Row, RowBlock, flat
from mixling.errors import ConfigError, DataError, command_line, near_miss
from mixling.hub import HUB

__all__ = ["HUB", "STDIN", "OnBadRow", "Row", "RowBlock", "format_of_name", "read_row_blocks", "read_rows"]

_TABLES = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
    ".parquet": "parquet",
    **dict.fromkeys((".ft", ".train", ".valid"), "fasttext"),
    **dict.fromkeys(
        (".conll", ".conllu", ".iob", ".iob1", ".iob2", ".bio", ".bio2", ".bioes", ".bilou", ".bmes"), "conll"
    ),
}
_FORMATS = {".txt": "text", **_TABLES}  # text: a document on each line, without rows, see `mixling.data.corpora`
_OTHERS = (".zst", ".7z", ".rar", ".tar", ".tgz", ".lz4")
_ROWS_OF_TEXT = "allowed: lines with __label__NAME, or a word with its tag on each line; or rename or convert it"
TAB_AFTER_WORD = "s/  */\\t/"  # for sed
_WORKBOOKS = (".xlsx", ".xls", ".xlsm", ".ods")


def format_of_name(name: str) -> str | None:
    """Return the format for a file name: text, csv, tsv, jsonl, parquet, conll; None if it is unknown.

    Extensions of compressed files and letter case are ignored.
    """
    return None if name.startswith(HUB) else _FORMATS.get(_suffix(name))


def _suffix(name: str | Path) -> str:
    suffixes = [suffix.lower() for suffix in PurePath(name).suffixes]
    if suffixes and suffixes[-1] in PACKED:
        suffixes.pop()
    return suffixes[-1] if suffixes else ""


def read_rows(
    source: str | Path,
    *,
    on_bad_row: OnBadRow,
    file_format: str | None = None,
    columns: Collection[str] | None = None,
) -> Iterator[Row]:
    """Stream the rows of a file or hub data set.

    Text files are UTF-8, or UTF-16 with a byte order mark. What separates the fields of a `.csv` or `.tsv` is what
    gives its first rows the header's width. Blank lines are skipped. CoNLL files yield the columns `tokens` and, if
    there are tags, `slots`.

    Args:
        source: a file; `<stdin>`; a folder with a folder of texts for each class; or
            `hf:NAME[@REVISION][:SPLIT]`, where SPLIT is `train` by default, and NAME may be a local folder.
        file_format: csv, tsv, jsonl, parquet or conll; by default determined by the extension, or by the first byte of
            a pipe without one (an object or a table).
        columns: the required columns; other columns of Parquet are not read but None. By default all.

    Raises:
        DataError: a row is bad (unless `on_bad_row` skips it), or the file; with file and line.
        UserError: a library that the format needs is not installed.
    """
    return flat(read_row_blocks(source, on_bad_row=on_bad_row, file_format=file_format, columns=columns))


def read_row_blocks(
    source: str | Path,
    *,
    on_bad_row: OnBadRow,
    file_format: str | None = None,
    columns: Collection[str] | None = None,
) -> Iterator[Row | RowBlock]:
    """Stream the rows of `read_rows`, many at a time where the format can be read so.

    At the end, `on_bad_row` is told how many lines and rows there were.
    """
    name = str(source)
    length = _Length(on_bad_row)
    skipped = on_bad_row.skipped
    rows = 0
    own = 0
    with ExitStack() as stack:
        items = _items(source, stack, on_bad_row, file_format, columns, length)
        while True:
            before = on_bad_row.skipped
            item = next(items, None)
            own += on_bad_row.skipped - before  # the others are skipped by what makes examples of rows
            if item is None:
                break
            rows += 1 if isinstance(item, Row) else len(item.values)
            yield item
    skipped = on_bad_row.skipped - skipped
    on_bad_row.count(name, length.lines, rows + own - skipped, skipped)


class _Length:
    """Counts the lines of texts."""

    def __init__(self, on_bad_row: OnBadRow) -> None:
        self._on_bad_row, self.lines = on_bad_row, cast("int | None", None)

    def of(self, texts: Texts) -> Texts:
        for first, text in texts:
            self.lines = self._on_bad_row.lines_read = first - 1 + text.count("\n") + (not text.endswith("\n"))
            yield first, text


def _items(
    source: str | Path,
    stack: ExitStack,
    on_bad_row: OnBadRow,
    file_format: str | None,
    columns: Collection[str] | None,
    length: _Length,
) -> Iterator[Row | RowBlock]:
    """Read a file in its format; readers are imported on demand, for a fast start of the command line."""
    name = str(source)
    path = Path(source)
    if name.startswith(HUB):
        from mixling.data.readers.hub import read_hub

        return read_hub(name)
    if file_format is None and os.path.isdir(name):  # false for a name that is too long
        from mixling.data.readers.text_folder import read_text_folder

        return read_text_folder(path, name, on_bad_row)
    if file_format is None and (name == STDIN or (not path.suffix and path.is_fifo())):
        data = open_stdin(stack) if name == STDIN else open_file(path, stack)
        head = cast(io.BufferedReader, data).peek(8)[:8].lstrip(codecs.BOM_UTF8 + codecs.BOM_UTF16 + b" \0\r\n")
        kind = "jsonl" if head[:1] in (b"{", b"[") else "csv"
    else:
        kind = _format_of(path, file_format)
        data = open_file(path, stack)
    if file_format is None and kind in ("csv", "tsv", "text"):
        from mixling.data.readers.sniffing import format_inside

        kind = format_inside(data, ".txt" if kind == "text" else _suffix(path) or ".csv") or kind
    if kind == "parquet":
        from mixling.data.readers.parquet import read_parquet

        return read_parquet(data, name, stack, columns)
    if kind == "text":
        raise DataError(_no_rows(data, path), path=name)
    if kind == "jsonl":
        from mixling.data.readers.annotations import plain_rows
        from mixling.data.readers.json_documents import read_json_rows
        from mixling.data.readers.squad import is_squad, read_squad

        if is_squad(data):
            return read_squad(data, name, on_bad_row)
        return plain_rows(read_json_rows(data, name, on_bad_row, length.of))
    texts = length.of(read_line_blocks(data, name))
    if kind == "conll":
        from mixling.data.readers.conll import read_conll

        return read_conll(lines_of(texts), name, on_bad_row, columns)
    if kind == "fasttext":
        from mixling.data.readers.fasttext import read_fasttext

        return read_fasttext(lines_of(texts), name, on_bad_row)
    from mixling.data.readers.delimited import read_delimited

    def again() -> Texts:
        with ExitStack() as other:
            yield from read_line_blocks(open_file(path, other), name)

    return read_delimited(texts, name, on_bad_row, kind, again=again if path.is_file() else None)


def _no_rows(data: BinaryIO, path: Path) -> str:
    """Return why a file of text has no rows."""
    from mixling.data.readers.sniffing import begins_with_labels

    if not begins_with_labels(data):
        return f"is plain text, without labels; {_ROWS_OF_TEXT}"
    new = path.with_suffix(".tsv")
    command = f"{command_line('sed', TAB_AFTER_WORD, path)} > {command_line(new)}"
    return f"is plain text; if the first word of each line is its label: {command}"


def _format_of(path: Path, file_format: str | None) -> str:
    if file_format is not None:
        allowed = sorted(set(_TABLES.values()))
        if file_format not in allowed:
            raise ConfigError(f"unknown file format {file_format!r}; {near_miss(file_format, allowed)}")
        return file_format
    if str(path) == "-" and not path.exists():
        message = "standard input is read by `predict`, `explain` and `generate`; save it to a file, and name that"
        raise DataError(message, path=path)
    from mixling.data.readers.sniffing import holds_rows

    suffix = _suffix(path)
    if not suffix and path.suffix.lower() == ".zip":
        suffix = _suffix(name_in_zip(path))
    if suffix in _OTHERS:
        raise DataError(f"{suffix} files are not supported; unpack it, or compress it with gzip (.gz)", path=path)
    if suffix in _WORKBOOKS:
        raise DataError("is a workbook; save the sheet as CSV in UTF-8, in the program that made it", path=path)
    if suffix not in _FORMATS:
        if path.is_file() and holds_rows(str(path)):
            return "text"
        got = f"unknown extension {suffix!r}" if suffix else "a file name without an extension"
        known = f"{near_miss(suffix, _TABLES)} (each also with .gz, .bz2, .xz or .zip)"
        raise DataError(f"{got}; {known}; rename or convert it", path=path)
    return _FORMATS[suffix]
