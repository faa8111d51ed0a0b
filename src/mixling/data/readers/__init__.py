"""Files to rows: CSV, TSV, JSONL, Parquet, CoNLL (each also gzipped) and hub data sets, streamed one row at a time.

Each format has a file here; the endings of file names stand in `_FORMATS` alone.

A `.json` file that begins as SQuAD's do is read as a whole, a row for each question.

What is wrong with one row goes to `OnBadRow`, which raises or counts it. What is wrong with the file (cut gzip, bytes
that are not UTF-8, a bad header, a corrupt footer) always raises, since rows could go missing unseen.
"""

from __future__ import annotations

import io
from collections.abc import Collection, Iterator
from contextlib import ExitStack
from pathlib import Path, PurePath
from typing import BinaryIO, cast

from mixling.data.readers.rows import OnBadRow, Row, open_file, read_lines
from mixling.errors import ConfigError, DataError, near_miss

__all__ = ["HUB", "OnBadRow", "Row", "format_of_name", "read_rows"]

HUB = "hf:"  # before the name of a data set, or of a teacher, on the hub
_FORMATS = {
    ".txt": "text",  # a document on each line: `mixling.data.corpora` reads it, as it has no rows
    ".csv": "csv",
    ".tsv": "tsv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
    ".parquet": "parquet",
    ".conll": "conll",
    ".iob": "conll",
    ".bio": "conll",
}
_TABLES = {suffix: name for suffix, name in _FORMATS.items() if name != "text"}
_PACKED = (".bz2", ".xz", ".zst", ".zip", ".7z", ".rar", ".tar", ".tgz", ".lz4")


def format_of_name(name: str) -> str | None:
    """Return the format that a file's name stands for: text, csv, tsv, jsonl, parquet, conll; None for other names.

    An ending `.gz` is passed over, and so is letter case.
    """
    return None if name.startswith(HUB) else _FORMATS.get(_suffix(name))


def _suffix(name: str | Path) -> str:
    suffixes = [suffix.lower() for suffix in PurePath(name).suffixes]
    if suffixes and suffixes[-1] == ".gz":
        suffixes.pop()
    return suffixes[-1] if suffixes else ""


def read_rows(
    source: str | Path,
    *,
    on_bad_row: OnBadRow,
    file_format: str | None = None,
    columns: Collection[str] | None = None,
) -> Iterator[Row]:
    """Stream the rows of a file, or of `hf:NAME[@REVISION][:SPLIT]` (SPLIT is `train` by default; NAME may be
    a local folder).

    Text files are UTF-8, or UTF-16 with a byte order mark. The delimiter of a `.csv` is the first of `,` `;` tab that
    stands in its header. Blank lines are no rows. CoNLL files give the columns `tokens` (first column) and `slots`
    (last column, absent where there is one column only).

    Args:
        file_format: csv, tsv, jsonl, parquet or conll; by default the file's extension decides, and of a pipe without
            one its first byte: an object or a table.
        columns: those that are needed; of Parquet the others are not read, and None in every row. By default all.

    Raises:
        DataError: with file and line, for a row (unless `on_bad_row` skips) or for the whole file.
        UserError: a library that this format needs is not installed.
    """
    name = str(source)
    if name.startswith(HUB):
        from mixling.data.readers.hub import read_hub

        yield from read_hub(name)
        return
    path = Path(source)
    with ExitStack() as stack:
        if file_format is None and not path.suffix and path.is_fifo():
            data = open_file(path, stack)
            kind = "jsonl" if cast(io.BufferedReader, data).peek(1)[:1] in (b"{", b"[") else "csv"
        else:
            kind = _format_of(path, file_format)
            data = open_file(path, stack)
        yield from _rows(data, name, kind, stack, on_bad_row, columns)


def _rows(
    data: BinaryIO, name: str, kind: str, stack: ExitStack, on_bad_row: OnBadRow, columns: Collection[str] | None
) -> Iterator[Row]:
    """Read a file by the reader of its format, which is imported here: a command that reads none starts without."""
    if kind == "parquet":
        from mixling.data.readers.parquet import read_parquet

        return read_parquet(data, name, stack, columns)
    if kind == "conll":
        from mixling.data.readers.conll import read_conll

        return read_conll(read_lines(data, name), name, on_bad_row)
    if kind == "jsonl":
        from mixling.data.readers.jsonl import read_jsonl
        from mixling.data.readers.squad import is_squad, read_squad

        if is_squad(data):
            return read_squad(data, name, on_bad_row)
        return read_jsonl(read_lines(data, name), name, on_bad_row)
    from mixling.data.readers.delimited import read_delimited

    return read_delimited(read_lines(data, name), name, on_bad_row, "\t" if kind == "tsv" else ",;\t")


def _format_of(path: Path, file_format: str | None) -> str:
    if file_format is not None:
        allowed = sorted(set(_TABLES.values()))
        if file_format not in allowed:
            raise ConfigError(f"unknown file format {file_format!r}; {near_miss(file_format, allowed)}")
        return file_format
    suffix = _suffix(path)
    if suffix in _PACKED:
        raise DataError(f"ends in {suffix}, which is not read; unpack it, or pack it by gzip (.gz)", path=path)
    if suffix not in _TABLES and not path.is_dir():
        got = f"unknown extension {suffix!r}" if suffix else "a file name without an extension"
        raise DataError(f"{got}; {near_miss(suffix, _TABLES)} (each also with .gz); rename or convert it", path=path)
    return _TABLES.get(suffix, "")
