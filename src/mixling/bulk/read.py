"""Read a part of a file as windows of rows, each row with its text or the error that it has instead."""

from __future__ import annotations

import gzip
import itertools
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any

from mixling.bulk.files import FilePart, count_lines, line_start, open_slice
from mixling.data.config import ColumnsConfig
from mixling.data.examples import RowReader
from mixling.data.inputs import MAX_WINDOW, WINDOW, Item
from mixling.data.kept import KeptColumns
from mixling.data.readers.delimited import Header, read_delimited, read_header
from mixling.data.readers.jsonl import read_jsonl
from mixling.data.readers.lines import Texts, read_line_blocks
from mixling.data.readers.packed import decompressed
from mixling.data.readers.parquet import check_sizes, describe_parquet, read_batches
from mixling.data.readers.rows import SKIP, OnBadRow, Row, flat
from mixling.errors import DataError

_PAGES = 1 << 20  # bytes of Parquet that are read at a time
PREFIX = "prediction"  # of the names of all columns that are added


@dataclass(frozen=True, kw_only=True)
class Window:
    """Some rows of a part, one after another.

    Attributes:
        items: for each row its text, or the error that it has instead.
        rows: the values of each row; of a bad row, those that could be read.
        lines: of JSONL, the rows as they are in the file; "" for a line that is no object.
        batch: of Parquet, the rows as an Arrow record batch, and `rows` is empty.
    """

    items: Sequence[Item]
    rows: Sequence[Mapping[str, Any]] = ()
    lines: Sequence[str] = ()
    batch: Any = None


def read_part(
    part: FilePart, *, reader: type[RowReader], columns: ColumnsConfig, skip: bool, kept: Sequence[str] = ()
) -> Iterator[Window]:
    """Read a part.

    Args:
        skip: bad rows have an error; otherwise the first one is raised.
        kept: further columns that each row must have.

    Raises:
        DataError: a row is bad, with file and line (or row); or the file is damaged.
        TransferError: a store cannot be read.
    """
    texts = _Texts(reader, columns, skip, kept)
    if part.file_format == "parquet":
        return _parquet(part, texts)
    return _jsonl(part, texts) if part.file_format == "jsonl" else _delimited(part, texts)


class LinesUnknownError(Exception):
    """There is a bad row, whose number is not known: read the part again, with the number of its first line."""


class _Texts:
    """Makes items of rows.

    Only the columns of the inputs are looked at: whatever labels the rows may have are passed through.
    """

    def __init__(self, reader: type[RowReader], columns: ColumnsConfig, skip: bool, kept: Sequence[str]) -> None:
        self._reader = reader(columns, labeled=False)
        self._kept = KeptColumns(kept)
        names = {"text", *reader.wanted[:-1]}  # without the target
        self.columns = set(columns.beside)
        for key in names:
            found = getattr(columns, key)
            self.columns |= {found} if isinstance(found, str) else {*(found or ())}
        self.bad = OnBadRow("skip" if skip else "error", keep=2**63)

    def item(self, row: Row) -> Item:
        """Return the text of a row, or its error; raise the error unless bad rows are skipped."""
        try:
            if row.own_columns:
                self._reader.check_columns(row)
                self._kept.check(row)
                if taken := {PREFIX, f"{PREFIX}_error"}.intersection(row.values):
                    raise DataError(f"has a {min(taken)!r} already; rename it", path=row.path, line=row.line)
            values = {name: row.values[name] for name in self.columns if name in row.values}
            return Item(self._reader.example(Row(values, row.path, row.line, row.own_columns)).text)
        except DataError as error:
            self.bad(error)
            return Item(None, self.bad.messages.pop())

    def errors(self) -> list[Item]:
        """Return items of the rows that the reader of their format has skipped since the last call."""
        items = [Item(None, message) for message in self.bad.messages]
        self.bad.messages.clear()
        return items


def _parquet(part: FilePart, texts: _Texts) -> Iterator[Window]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    broken = (pa.ArrowException, OSError, ValueError, OverflowError, MemoryError)
    with open_slice(part.path, 0, part.size) as data:
        file = pq.ParquetFile(data, buffer_size=_PAGES, pre_buffer=False)
        end = 0
        for group in range(file.num_row_groups):
            at = end
            end = end + file.metadata.row_group(group).num_rows
            if end <= part.start or at >= part.stop:
                continue
            try:
                for batch in read_batches(file, WINDOW, row_groups=[group]):
                    first = at
                    at = at + len(batch)
                    own = batch.slice(max(part.start - first, 0), max(part.stop - max(first, part.start), 0))
                    if len(own):
                        yield _batch_window(own, texts, part.path, max(first, part.start) + 1)
                    if at >= part.stop:
                        break
            except broken as error:
                first = max(at, part.start)
                stop = min(end, part.stop)
                message = f"row group {group} from here to row {end}: {describe_parquet(error)}"
                texts.bad(DataError(f"{message} {SKIP}", path=part.path, line=first + 1))
                yield from _lost_rows(file.schema_arrow, stop - first, texts.bad.messages.pop())


def _batch_window(batch: Any, texts: _Texts, path: str, first: int) -> Window:
    names = [name for name in batch.schema.names if name in texts.columns]
    check_sizes(batch.select(names), path, first)
    values = [batch.column(name).to_pylist() for name in names]
    rows = (dict(zip(names, row, strict=True)) for row in zip(*values, strict=True))
    items = [texts.item(Row(row, path, number)) for number, row in enumerate(rows, first)]
    return Window(items=items, batch=batch)


def _lost_rows(schema: Any, count: int, message: str) -> Iterator[Window]:
    """Yield windows of rows without values."""
    import pyarrow as pa

    for first in range(0, count, WINDOW):
        size = min(WINDOW, count - first)
        columns = [pa.nulls(size, field.type) for field in schema]
        names = schema.names
        yield Window(items=[Item(None, message)] * size, batch=pa.RecordBatch.from_arrays(columns, names=names))


def _jsonl(part: FilePart, texts: _Texts) -> Iterator[Window]:
    start, stop = (line_start(part.path, at, part.size) for at in (part.start, part.stop))
    unknown = part.line == 0 and start > 0
    if unknown:
        texts.bad.mode = "error"
    with ExitStack() as stack:
        lines = _Remembered(read_line_blocks(*_opened(part, start, stop, stack)))
        rows = read_jsonl(lines, part.path, texts.bad, is_part=True)
        try:
            yield from _windows(flat(rows), texts, lines)
        except DataError:
            if unknown:
                raise LinesUnknownError from None
            raise


def with_line(part: FilePart) -> FilePart:
    """Return a part of JSONL with the number of its first line, for which the file is read up to there."""
    return replace(part, line=count_lines(part.path, line_start(part.path, part.start, part.size)) + 1)


def _delimited(part: FilePart, texts: _Texts) -> Iterator[Window]:
    with ExitStack() as stack:
        lines = read_line_blocks(*_opened(part, part.start, part.stop, stack))
        if not part.packed:
            lines = itertools.chain([(1, "".join(part.header))], lines)
        rows = read_delimited(lines, part.path, texts.bad, part.file_format, first_line=part.line, dialect=part.dialect)
        yield from _windows(flat(rows), texts, None)


class _Remembered:
    """Texts of whole lines; the lines of the last one are remembered."""

    def __init__(self, texts: Iterator[tuple[int, str]]) -> None:
        self._texts = texts
        self._first = 0
        self._lines = list[str]()

    def __iter__(self) -> Iterator[tuple[int, str]]:
        return self

    def __next__(self) -> tuple[int, str]:
        self._first, text = next(self._texts)
        self._lines = text.split("\n")
        return self._first, text

    def line(self, number: int) -> str:
        return self._lines[number - self._first]


def _windows(rows: Iterator[Row], texts: _Texts, lines: _Remembered | None) -> Iterator[Window]:
    items: list[Item] = []
    values: list[Mapping[str, Any]] = []
    kept: list[str] = []
    size = 0

    def add(item: Item, row: Mapping[str, Any], line: str) -> None:
        items.append(item)
        values.append(row)
        kept.append(line)

    for row in rows:
        for item in texts.errors():
            add(item, {}, "")
        add(texts.item(row), row.values, "" if lines is None else lines.line(row.line))
        size += sum(len(value) for value in row.values.values() if isinstance(value, str))
        if len(items) >= WINDOW or size > MAX_WINDOW:
            yield Window(items=items, rows=values, lines=kept)
            items = []
            values = []
            kept = []
            size = 0
    for item in texts.errors():
        add(item, {}, "")
    if items:
        yield Window(items=items, rows=values, lines=kept)


def _opened(part: FilePart, start: int, stop: int, stack: ExitStack) -> tuple[Any, str, int]:
    """Return a slice of a file, decompressed if it is compressed, the file's path, and the number of the first line."""
    data: Any = stack.enter_context(open_slice(part.path, start, stop))
    magic = data.peek(6)[:6]
    if magic.startswith(b"\x1f\x8b"):
        data = stack.enter_context(gzip.GzipFile(fileobj=data))
    return decompressed(data, magic, part.path, stack) or data, part.path, 1 if part.packed else part.line or 1


def header_of(part: FilePart) -> Header:
    """Return the header of CSV or TSV.

    Args:
        part: the whole file.

    Raises:
        DataError: there is no valid header.
    """

    def texts() -> Texts:
        with ExitStack() as stack:
            yield from read_line_blocks(*_opened(part, 0, part.size, stack))

    return read_header(texts(), part.path, part.file_format, again=texts)
