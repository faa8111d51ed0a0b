"""Read Parquet files, also compressed or from a pipe."""

from __future__ import annotations

import itertools
import json
import tempfile
import zlib
from collections.abc import Collection, Iterator
from contextlib import ExitStack
from typing import Any, BinaryIO, cast

from mixling.data.readers.files import is_packed
from mixling.data.readers.lines import MAX_LINE
from mixling.data.readers.rows import MAX_CELL_VALUES, Row, check_header
from mixling.errors import DataError, UserError, shown
from mixling.installation import install_command

MAX_SPOOLED = 1 << 32  # bytes of a gzipped or piped file
MAX_BATCH = 64 << 20  # bytes of the rows that are in memory at a time
BATCH_ROWS = 1024  # rows kept as Python objects at a time
_FEW = 32  # rows that are decoded at a time: the encoded size of a row says nothing about how large it is


def read_parquet(data: BinaryIO, path: str, stack: ExitStack, columns: Collection[str] | None) -> Iterator[Row]:
    """Stream the rows of a file.

    Args:
        stack: closes the temporary file for gzipped or piped data.
        columns: the columns to read; others are None. By default all.

    Raises:
        DataError: the file is damaged or has no rows, or a value is too large.
        UserError: pyarrow is not installed.
    """
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise UserError(f"reading Parquet requires pyarrow: {install_command('parquet')}") from None
    broken = (pa.ArrowException, OSError, EOFError, ValueError, OverflowError, ImportError, zlib.error)
    number = 0

    def values_of(batch: Any, name: str) -> list[Any]:
        try:
            return cast("list[Any]", batch.column(name).to_pylist())
        except broken:
            if columns is not None:
                raise
            return [None] * len(batch)  # a column that nobody requested may have values without a Python type

    try:
        if is_packed(data) or not data.seekable():  # Parquet is read from its end
            data = _spooled(data, path, stack)
        file = pq.ParquetFile(data)
        header = check_header(list(file.schema_arrow.names), path, None)
        wanted = [name for name in header if columns is None or name in columns]
        unread = dict.fromkeys(header)
        classes = _class_names(file.schema_arrow.metadata)
        for batch in itertools.chain.from_iterable(map(_convertible, read_batches(file, BATCH_ROWS, columns=wanted))):
            check_sizes(batch, path, number + 1)
            read = [values_of(batch, name) for name in wanted]
            for position, name in enumerate(wanted):
                if name in classes:
                    read[position] = [_named(value, classes[name]) for value in read[position]]
            for index in range(len(batch)):
                number += 1
                yield Row({**unread, **{n: v[index] for n, v in zip(wanted, read, strict=True)}}, path, number)
    except (MemoryError, *broken) as error:
        raise DataError(describe_parquet(error), path=path, line=number or None) from None
    if not number:
        raise DataError("has columns but no rows; at least one row is required", path=path)


def read_batches(file: Any, rows: int, **arguments: Any) -> Iterator[Any]:
    """Yield record batches of a limited number of rows, and of little more than `MAX_BATCH` bytes.

    Args:
        file: a `pyarrow.parquet.ParquetFile`.
        arguments: of its `iter_batches`.
    """
    import pyarrow as pa

    few: list[Any] = []
    number = size = 0
    for batch in file.iter_batches(_FEW, use_threads=False, **arguments):
        few.append(batch)
        number = number + len(batch)
        size = size + batch.nbytes
        if number + _FEW > rows or size > MAX_BATCH:
            yield from pa.Table.from_batches(few).combine_chunks().to_batches()
            few = []
            number = 0
            size = 0
    if few:
        yield from pa.Table.from_batches(few).combine_chunks().to_batches()


def _convertible(batch: Any) -> Iterator[Any]:
    """Yield a batch, or its rows one by one if Python would take much memory for all of them."""
    if batch.nbytes <= MAX_BATCH and sum(map(_values, batch.columns)) <= MAX_CELL_VALUES:
        yield batch
    else:
        yield from (batch.slice(index, 1) for index in range(len(batch)))


def check_sizes(batch: Any, path: str, line: int) -> None:
    """Refuse values that are too large.

    Args:
        line: the number of the first row.

    Raises:
        DataError: a value has more than 16 MiB, or more than `MAX_CELL_VALUES` values in it.
    """
    if batch.nbytes <= MAX_LINE and len(batch) > 1 and sum(map(_values, batch.columns)) <= MAX_CELL_VALUES:
        return
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        for index in range(len(column)):
            cell = column.slice(index, 1)
            if str(cell.type) in ("string_view", "binary_view"):  # a slice counts as the whole
                cell = cell.cast("large_binary")
            if (size := cell.nbytes) > MAX_LINE + _FEW:  # offsets have some bytes, too
                message = f"{shown(name)}: has a value of {size:,} bytes; allowed: up to {MAX_LINE:,}"
                raise DataError(message, path=path, line=line + index)
            if (size := _values(cell)) > MAX_CELL_VALUES:
                message = f"{shown(name)}: has a list of {size:,} values; allowed: up to {MAX_CELL_VALUES:,}"
                raise DataError(message, path=path, line=line + index)


def _values(array: Any) -> int:
    """Return the number of Python objects that an array becomes."""
    if not array.type.num_fields:
        return len(array)
    if hasattr(array, "keys"):  # a map, which cannot be flattened
        first = array.offsets[0].as_py()
        last = array.offsets[-1].as_py()
        inner = [part.slice(first, last - first) for part in (array.keys, array.items)]
    else:
        inner = array.flatten()
    return len(array) + sum(map(_values, inner if isinstance(inner, list) else [inner]))


def describe_parquet(error: BaseException) -> str:
    """Return the message about a file that cannot be read."""
    if isinstance(error, MemoryError):
        return "needs more memory here than the system allows; write it with fewer values in a page and in a list"
    return f"cannot be read as Parquet: {' '.join(str(error).split())}; if it is truncated, write it again"


def _class_names(metadata: dict[bytes, bytes] | None) -> dict[str, list[str]]:
    """Return the names of numbers, by column, that the library datasets declares in a file."""
    try:
        features = json.loads((metadata or {})[b"huggingface"])["info"]["features"].items()
    except (KeyError, ValueError, TypeError, AttributeError):
        return {}
    found = {}
    for column, feature in features:
        while isinstance(feature, dict | list) and feature:
            feature = feature[0] if isinstance(feature, list) else feature
            if isinstance(feature, dict) and feature.get("_type") == "ClassLabel":
                found[column] = feature.get("names") or []
            feature = feature.get("feature") if isinstance(feature, dict) else None
    return {column: names for column, names in found.items() if names}


def _named(value: Any, names: list[str]) -> Any:
    """Replace numbers of classes by their names; -1 means no label."""
    if isinstance(value, list):
        return [_named(item, names) for item in value]
    if not isinstance(value, int) or not -1 <= value < len(names):
        return value
    return None if value == -1 else names[value]


def _spooled(data: BinaryIO, path: str, stack: ExitStack) -> BinaryIO:
    """Copy a stream to a temporary file, which is seekable.

    Raises:
        DataError: it is too large; a small gzipped file may expand to a thousand times its size.
    """
    out = stack.enter_context(tempfile.TemporaryFile())  # noqa: SIM115 (the stack closes it)
    while chunk := data.read(1 << 20):
        if out.tell() > MAX_SPOOLED:
            raise DataError(f"expands to more than {MAX_SPOOLED >> 30} GiB; decompress it to a file first", path=path)
        out.write(chunk)
    out.seek(0)
    return cast(BinaryIO, out)
