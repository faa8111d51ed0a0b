"""Read Parquet files, also compressed or from a pipe."""

from __future__ import annotations

import json
import tempfile
import zlib
from collections.abc import Collection, Iterator
from contextlib import ExitStack
from typing import Any, BinaryIO, cast

from mixling.data.readers.files import is_packed
from mixling.data.readers.lines import MAX_LINE
from mixling.data.readers.rows import Row, check_header
from mixling.errors import DataError, UserError
from mixling.installation import install_command

MAX_SPOOLED = 1 << 32  # bytes of a gzipped or piped file
BATCH_ROWS = 1024  # rows kept as Python objects at a time


def read_parquet(data: BinaryIO, path: str, stack: ExitStack, columns: Collection[str] | None) -> Iterator[Row]:
    """Stream the rows of a file.

    Args:
        stack: closes the temporary file for gzipped or piped data.
        columns: the columns to read; others are None. By default all.

    Raises:
        DataError: the file is damaged or has no rows, or a text of more than 16 MiB.
        UserError: pyarrow is not installed.
    """
    try:
        import pyarrow as pa
        import pyarrow.compute as pc
        import pyarrow.parquet as pq
    except ImportError:
        raise UserError(f"reading Parquet requires pyarrow: {install_command('train')}") from None
    broken = (pa.ArrowException, OSError, EOFError, ValueError, OverflowError, ImportError, zlib.error)
    number = 0

    def is_text(kind: Any) -> bool:
        return bool(pa.types.is_string(kind) or pa.types.is_binary(kind))

    def values_of(batch: Any, name: str) -> list[Any]:
        try:
            column = batch.column(name)
            if not pa.types.is_dictionary(column.type) or not is_text(column.type.value_type):
                return column.to_pylist()
            if (size := pc.max(pc.binary_length(column.dictionary)).as_py() or 0) > MAX_LINE:
                raise DataError(
                    f"{name}: has a text of {size:,} bytes; allowed: up to {MAX_LINE:,}", path=path, line=number + 1
                )
            # Equal texts are one in memory, as they are in the file, which may be a millionth as large as all of them.
            found = [*column.dictionary.to_pylist(), None]
            return [found[-1 if index is None else index] for index in column.indices.to_pylist()]
        except broken:
            if columns is not None:
                raise
            return [None] * len(batch)  # a column that nobody requested may have values without a Python type

    try:
        if is_packed(data) or not data.seekable():  # Parquet is read from its end
            data = _spooled(data, path, stack)
        schema = pq.read_schema(data)
        data.seek(0)
        file = pq.ParquetFile(data, read_dictionary=[field.name for field in schema if is_text(field.type)])
        header = check_header(list(file.schema_arrow.names), path, None)
        wanted = [name for name in header if columns is None or name in columns]
        unread, classes = dict.fromkeys(header), _class_names(file.schema_arrow.metadata)
        for batch in file.iter_batches(BATCH_ROWS, columns=wanted):
            read = [values_of(batch, name) for name in wanted]
            for position, name in enumerate(wanted):
                if name in classes:
                    read[position] = [_named(value, classes[name]) for value in read[position]]
            for index in range(len(batch)):
                number += 1
                yield Row({**unread, **{n: v[index] for n, v in zip(wanted, read, strict=True)}}, path, number)
    except broken as error:
        message = f"cannot be read as Parquet: {' '.join(str(error).split())}; if it is truncated, write it again"
        raise DataError(message, path=path, line=number or None) from None
    if not number:
        raise DataError("has columns but no rows; at least one row is required", path=path)


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
