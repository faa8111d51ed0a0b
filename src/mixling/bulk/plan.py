"""Cut files into parts that are predicted one by one: rows of Parquet, lines of JSONL, records of CSV."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import Any

from mixling.bulk.csv_records import record_starts
from mixling.bulk.files import FilePart, InputFile, find_files, open_slice
from mixling.bulk.read import header_of
from mixling.data.config import ColumnsConfig
from mixling.data.examples import RowReader
from mixling.data.readers import format_of_name
from mixling.data.readers.files import PACKED
from mixling.data.readers.rows import Row
from mixling.errors import ConfigError, DataError

# A file is cut into about this number of parts, unless they were smaller or larger than the limits in bytes.
PARTS = 32
MIN_PART_BYTES = 1 << 20
MAX_PART_BYTES = 32 << 20
MAX_ROWS = 65_536  # of a part of Parquet, whose texts may take more memory than in the file
# A part of a row group reads the rows before it in the group, too.
GROUP_PARTS = 8
_FORMATS = ("parquet", "jsonl", "csv", "tsv")
# What is read from its beginning: gzip, bzip2, xz, zip and UTF-16.
_PACKED = (b"\x1f\x8b", b"BZh", b"\xfd7zXZ", b"PK\x03\x04", b"\xff\xfe", b"\xfe\xff")
_FOOTERS = 8  # files that are opened at a time


@dataclass(frozen=True, kw_only=True)
class PartPlan:
    """What is to be predicted.

    Attributes:
        files: the input files in order, each with its parts.
        file_format: of all files.
        schema: of Parquet, an Arrow schema; of CSV the names of the columns; of JSONL None.
    """

    files: Sequence[tuple[InputFile, Sequence[FilePart]]]
    file_format: str
    schema: Any

    @property
    def parts(self) -> list[FilePart]:
        """All parts in order."""
        return list(itertools.chain.from_iterable(parts for _, parts in self.files))


def make_plan(patterns: Sequence[str], *, reader: type[RowReader], columns: ColumnsConfig) -> PartPlan:
    """Find the files of the patterns and cut them into parts, which depend on each file alone.

    Args:
        reader: of the model's task.

    Raises:
        ConfigError: two files would have outputs of the same name.
        DataError: there is no such file, files have several formats or schemas, or a column is missing.
    """
    files = list({file.path: file for pattern in patterns for file in find_files(pattern)}.values())
    formats = {file.path: _format_of(file) for file in files}
    first = files[0]
    for file in files:
        if formats[file.path] != formats[first.path]:
            raise DataError(
                f"is {formats[file.path]}, but {first.path} is {formats[first.path]}; predict each format into a "
                "folder of its own",
                path=file.path,
            )
    _check_names(files)
    cut = {"parquet": _cut_parquet, "jsonl": _cut_lines}.get(formats[first.path], _cut_records)
    with ThreadPoolExecutor(_FOOTERS) as pool:
        found = list(pool.map(lambda file: cut(file, formats[file.path]), files))
    schema = next((schema for schema, _ in found if schema is not None), None)
    for file, (own, _) in zip(files, found, strict=True):
        if own is not None and own != schema:
            raise DataError(f"{_difference(own, schema)} {first.path}; predict it into another folder", path=file.path)
    if schema is not None:
        names = schema if isinstance(schema, tuple) else schema.names
        reader(columns, labeled=False).check_columns(Row(dict.fromkeys(names), first.path, 0))
        if columns.sentence in names:
            got = f"the words of a sentence have rows of their own (column {columns.sentence!r})"
            raise DataError(f"{got}, which parts would cut; predict into a file: -o FILE.jsonl", path=first.path)
    parts = [(file, parts) for file, (_, parts) in zip(files, found, strict=True)]
    return PartPlan(files=parts, file_format=formats[first.path], schema=schema)


def stem_of(name: str) -> str:
    """Return a file's name, with / on every system, without the extensions of its format and of gzip."""
    path = PurePosixPath(name)
    if path.suffix.lower() in PACKED:
        path = path.with_suffix("")
    return str(path.with_suffix(""))


def _format_of(file: InputFile) -> str:
    found = format_of_name(file.name)
    if found not in _FORMATS or ".json" in PurePosixPath(file.name.lower()).suffixes:  # which is often SQuAD's
        allowed = ".parquet, .jsonl, .csv and .tsv (the last three also with .gz, .bz2, .xz or .zip)"
        raise DataError(f"is not a table of rows that can be cut; allowed: {allowed}; convert it", path=file.path)
    return found


def _check_names(files: Sequence[InputFile]) -> None:
    seen: dict[str, str] = {}
    for file in files:
        other = seen.setdefault(stem_of(file.name), file.path)
        if other != file.path:
            raise ConfigError(
                f"{other} and {file.path} would have outputs of the same name; give one pattern of a common folder, "
                "such as 'data/*/*.parquet', or rename one"
            )


def _name(file: InputFile, start: int) -> str:
    return f"{stem_of(file.name)}-{start:012d}"


def _part_bytes(size: int) -> int:
    return min(max(-(-size // PARTS), MIN_PART_BYTES), MAX_PART_BYTES)


def _cut_parquet(file: InputFile, kind: str) -> tuple[Any, list[FilePart]]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    with open_slice(file.path, 0, file.size) as data:
        try:
            metadata = pq.read_metadata(data)
            schema = metadata.schema.to_arrow_schema().remove_metadata()
        except (pa.ArrowException, OSError, ValueError) as error:
            reason = " ".join(str(error).split())
            raise DataError(f"cannot be read as Parquet: {reason}; if it is truncated, write it again",
                            path=file.path) from None  # fmt: skip
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    size = sum(group.total_byte_size for group in groups)
    wanted = min(max(metadata.num_rows * _part_bytes(size) // max(size, 1), 1), MAX_ROWS)  # rows of a part
    cuts = [0]
    end = 0
    for group in groups:
        pieces = min(-(-group.num_rows // wanted), GROUP_PARTS)
        if pieces > 1:
            cuts += [end + group.num_rows * piece // pieces for piece in range(pieces)]
        end += group.num_rows
        if pieces > 1 or end - cuts[-1] >= wanted:
            cuts.append(end)
    cuts = sorted({*cuts, end})
    return schema, [
        FilePart(path=file.path, name=_name(file, start), file_format=kind, start=start, stop=stop, size=file.size)
        for start, stop in itertools.pairwise(cuts)
    ]


def _cut_lines(file: InputFile, kind: str) -> tuple[None, list[FilePart]]:
    size = file.size
    step = _part_bytes(file.size)
    if packed := _is_packed(file):
        step = max(size, 1)
    return None, [
        FilePart(path=file.path, name=_name(file, start), file_format=kind, start=start, stop=min(start + step, size),
             size=size, packed=packed)
        for start in range(0, size, step)
    ]  # fmt: skip


def _cut_records(file: InputFile, kind: str) -> tuple[tuple[str, ...] | None, list[FilePart]]:
    """Cut CSV between records; whether a line feed ends one depends on all quotes before it, so the file is read."""
    if file.size == 0:
        return None, []
    whole = FilePart(path=file.path, name=_name(file, 0), file_format=kind, start=0, stop=file.size, size=file.size)
    header = header_of(whole)
    if header.dialect.numbered:
        raise DataError(
            "the first line is a row; name the columns there, so that parts can be read", path=file.path, line=1
        )
    names = tuple(filter(None, header.names))
    first = header.line + len(header.lines)
    if _is_packed(file):
        return names, [replace(whole, packed=True, line=first)]
    with open_slice(file.path, 0, file.size) as data:
        starts = record_starts(data, file.path, header.dialect, first)
        cuts = list(_spaced(starts, _part_bytes(file.size)))
    names_at = [0] + [start for start, _ in cuts[1:]]  # the first part is named as in a file without a header
    stops = [start for start, _ in cuts[1:]] + [file.size]
    whole = replace(whole, header=header.lines, dialect=header.dialect)
    return names, [
        replace(whole, name=_name(file, named), start=start, stop=stop, line=line)
        for (start, line), stop, named in zip(cuts, stops, names_at, strict=True)
    ]


def _spaced(starts: Iterator[tuple[int, int]], step: int) -> Iterator[tuple[int, int]]:
    """Yield the first of the starts (byte, line), and those that are at least `step` bytes after the one before."""
    last: int | None = None
    for start, line in starts:
        if last is None or start - last >= step:
            last = start
            yield start, line


def _is_packed(file: InputFile) -> bool:
    with open_slice(file.path, 0, file.size) as data:
        return data.read(6).startswith(_PACKED)


def _difference(own: Any, first: Any) -> str:
    """Describe the first difference of two schemas, to be followed by the name of the file of the second."""
    if isinstance(own, tuple):
        for mine, theirs in itertools.zip_longest(own, first):
            if mine != theirs:
                return (
                    f"has the column {mine!r} where {theirs!r} is in" if mine and theirs else "has other columns than"
                )
    for mine, theirs in itertools.zip_longest(own, first):
        if mine != theirs and mine is not None and theirs is not None:
            return f"has the column {mine.name!r} of {mine.type} where {theirs.name!r} of {theirs.type} is in"
    return "has other columns than"
