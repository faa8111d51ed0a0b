"""Parquet files to rows, also zipped or through a pipe."""

from __future__ import annotations

import gzip
import tempfile
import zlib
from collections.abc import Collection, Iterator
from contextlib import ExitStack
from typing import Any, BinaryIO, cast

from mixling.data.readers.rows import Row, check_header
from mixling.errors import DataError, UserError

MAX_SPOOLED = 1 << 32  # bytes of a zipped or piped file
BATCH_ROWS = 1024  # rows held as Python objects at a time


def read_parquet(data: BinaryIO, path: str, stack: ExitStack, columns: Collection[str] | None) -> Iterator[Row]:
    """Stream the rows of a file.

    Args:
        stack: closes the temporary file that holds what is zipped or comes through a pipe.
        columns: those that are read; the others are None. By default all.

    Raises:
        DataError: the file is damaged or has no rows.
        UserError: pyarrow is not installed.
    """
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise UserError('reading Parquet needs pyarrow: pip install "mixling[train]"') from None
    broken = (pa.ArrowException, OSError, EOFError, ValueError, OverflowError, ImportError, zlib.error)
    number = 0

    def values_of(batch: Any, name: str) -> list[Any]:
        try:
            return batch.column(name).to_pylist()
        except broken:
            if columns is not None:
                raise
            return [None] * len(batch)  # a column that nobody asked for may hold what Python has no value for

    try:
        if isinstance(data, gzip.GzipFile) or not data.seekable():  # Parquet is read from its end
            data = _spooled(data, path, stack)
        file = pq.ParquetFile(data)
        header = check_header(list(file.schema_arrow.names), path, None)
        wanted = [name for name in header if columns is None or name in columns]
        unread = dict.fromkeys(header)
        for batch in file.iter_batches(BATCH_ROWS, columns=wanted):
            read = [values_of(batch, name) for name in wanted]
            for location in range(len(batch)):
                number += 1
                yield Row({**unread, **{n: v[location] for n, v in zip(wanted, read, strict=True)}}, path, number)
    except broken as error:
        message = f"cannot be read as Parquet: {' '.join(str(error).split())}; if it was cut or changed, write it again"
        raise DataError(message, path=path, line=number or None) from None
    if not number:
        raise DataError("has columns but no rows; at least one row is needed", path=path)


def _spooled(data: BinaryIO, path: str, stack: ExitStack) -> BinaryIO:
    """What a stream holds, in a temporary file that can be read from its end.

    Raises:
        DataError: it is too much, as a small zipped file may hold a million times its size.
    """
    out = stack.enter_context(tempfile.TemporaryFile())  # noqa: SIM115 (the stack closes it)
    while chunk := data.read(1 << 20):
        if out.tell() > MAX_SPOOLED:
            raise DataError(f"unzips to more than {MAX_SPOOLED >> 30} GiB; unzip it, and give that file", path=path)
        out.write(chunk)
    out.seek(0)
    return cast(BinaryIO, out)
