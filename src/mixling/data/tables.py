"""Files to rows: CSV, TSV, JSONL, Parquet, CoNLL (each also gzipped) and hub data sets, streamed one row at a time.

A `.json` file that begins as SQuAD's do is read as a whole, a row for each question.

What is wrong with one row goes to `OnBadRow`, which raises or counts it. What is wrong with the file (cut gzip, bytes
that are not UTF-8, a bad header, a corrupt footer) always raises, since rows could go missing unseen.
"""

from __future__ import annotations

import gzip
import io
import itertools
import json
import re
import tempfile
import zlib
from collections.abc import Collection, Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, BinaryIO, cast

from mixling.data.delimited import read_delimited
from mixling.data.rows import OnBadRow, Row, check_header, nul_error, open_file, read_lines, refuse_constant
from mixling.data.squad import is_squad, read_squad
from mixling.errors import ConfigError, DataError, UserError, near_miss
from mixling.hub import pinned, split_revision

__all__ = ["OnBadRow", "Row", "read_rows"]

HUB = "hf:"  # before the name of a data set, or of a teacher, on the hub
MAX_SENTENCE = 100_000  # tokens of a CoNLL sentence: beyond it the blank lines are missing
MAX_SPOOLED = 1 << 32  # bytes of a zipped or piped Parquet file
BATCH_ROWS = 1024  # rows of Parquet held as Python objects at a time

_FORMATS = {
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
_PACKED = (".bz2", ".xz", ".zst", ".zip", ".7z", ".rar", ".tar", ".tgz", ".lz4")
_METADATA = re.compile(r"# |#.* = ")  # only where a sentence may start; `#news O` and `# O` are tokens
_TAG = re.compile(r"O|[BI]-\S+")


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
        yield from _read_hub(name)
        return
    path = Path(source)
    with ExitStack() as stack:
        if file_format is None and not path.suffix and path.is_fifo():
            data = open_file(path, stack)
            kind = "jsonl" if cast(io.BufferedReader, data).peek(1)[:1] in (b"{", b"[") else "csv"
        else:
            kind = _format_of(path, file_format)
            data = open_file(path, stack)
        if kind == "parquet":
            yield from _read_parquet(data, name, stack, columns)
        elif kind == "jsonl" and is_squad(data):
            yield from read_squad(data, name, on_bad_row)
        elif kind == "jsonl":
            yield from _read_jsonl(read_lines(data, name), name, on_bad_row)
        elif kind == "conll":
            yield from _read_conll(read_lines(data, name), name, on_bad_row)
        else:
            yield from read_delimited(read_lines(data, name), name, on_bad_row, "\t" if kind == "tsv" else ",;\t")


def _format_of(path: Path, file_format: str | None) -> str:
    if file_format is not None:
        allowed = sorted(set(_FORMATS.values()))
        if file_format not in allowed:
            raise ConfigError(f"unknown file format {file_format!r}; {near_miss(file_format, allowed)}")
        return file_format
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if suffixes and suffixes[-1] == ".gz":
        suffixes.pop()
    suffix = suffixes[-1] if suffixes else ""
    if suffix in _PACKED:
        raise DataError(f"ends in {suffix}, which is not read; unpack it, or pack it by gzip (.gz)", path=path)
    if suffix not in _FORMATS and not path.is_dir():
        got = f"unknown extension {suffix!r}" if suffix else "a file name without an extension"
        raise DataError(f"{got}; {near_miss(suffix, _FORMATS)} (each also with .gz); rename or convert it", path=path)
    return _FORMATS.get(suffix, "")


def _read_jsonl(lines: Iterator[str], path: str, on_bad_row: OnBadRow) -> Iterator[Row]:
    empty = True
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        if empty and line.lstrip()[0] == "[":
            message = "is a JSON array; one object a line is needed: jq -c '.[]' OLD.json > NEW.jsonl"
            raise DataError(message, path=path, line=number)
        empty = False
        if "\0" in line:
            on_bad_row(nul_error(path, number))
            continue
        try:
            values = json.loads(line.rstrip("\r\n"), object_pairs_hook=_object, parse_constant=refuse_constant)
        except json.JSONDecodeError as error:
            remedy = "one complete JSON object a line is allowed (jq -c . OLD > NEW makes them)"
            message = f"column {error.colno}: bad JSON: {error.msg}; {remedy}"
        except (ValueError, RecursionError) as error:
            message = f"bad JSON: {error}; one flat JSON object a line is allowed"
        else:
            if isinstance(values, dict):
                yield Row(values, path, number, own_columns=True)
                continue
            message = f'got {line.strip()[:40]}; an object is needed: {{"text": "...", "label": "..."}}'
        on_bad_row(DataError(message, path=path, line=number))
    if empty:
        raise DataError("is empty; one JSON object a line is needed", path=path)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"key {next(name for name in names if names.count(name) > 1)!r} stands twice")
    return values


def _read_conll(lines: Iterator[str], path: str, on_bad_row: OnBadRow) -> Iterator[Row]:
    width = start = 0
    columns: list[list[str]] = []
    fault: DataError | None = None
    empty = True
    for number, line in enumerate(itertools.chain(lines, [""]), 1):  # the last sentence may lack its blank line
        body = line.rstrip("\r\n")
        parts = body.split("\t") if "\t" in body else [part for part in body.split(" ") if part]
        boundary = not body.strip() or parts[0] == "-DOCSTART-"
        comment = not columns and bool(_METADATA.match(body)) and not _TAG.fullmatch(parts[-1])
        if boundary and fault:
            on_bad_row(fault)
        elif boundary and columns:
            tokens = [parts[0] for parts in columns]
            slots = {} if width == 1 else {"slots": [parts[-1] for parts in columns]}
            yield Row({"tokens": tokens, **slots}, path, start)
        if boundary:
            columns, fault = [], None
        elif not comment:
            start = start if columns else number
            width = width or len(parts)
            empty = False
            columns.append(parts)
            if len(parts) != width and fault is None:
                expected = f"the lines before have {width}; a token first, its tag last, a blank line between sentences"
                fault = DataError(f"{len(parts)} columns, but {expected}", path=path, line=number)
            elif "\0" in line:
                fault = fault or nul_error(path, number)
            if len(columns) > MAX_SENTENCE:
                message = f"a sentence of more than {MAX_SENTENCE} tokens; put a blank line between sentences"
                raise DataError(message, path=path, line=start)
    if empty:
        raise DataError("holds no tokens; a line per token and a blank line between sentences are needed", path=path)


def _read_parquet(data: BinaryIO, path: str, stack: ExitStack, columns: Collection[str] | None) -> Iterator[Row]:
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
            for place in range(len(batch)):
                number += 1
                yield Row({**unread, **{n: v[place] for n, v in zip(wanted, read, strict=True)}}, path, number)
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


def pinned_rows(source: str) -> str:
    """Return `hf:NAME[@REVISION][:SPLIT]` with the commit that it means now.

    Raises:
        ConfigError: the name has no revision after its @.
    """
    name, split = _name_and_split(source)
    return f"{HUB}{pinned(name, 'dataset')}{f':{split}' if split else ''}"


def _name_and_split(source: str) -> tuple[str, str]:
    name, _, split = source.removeprefix(HUB).partition(":")
    return name, split


def _read_hub(source: str) -> Iterator[Row]:
    name, split = _name_and_split(source)
    try:
        import datasets
    except ImportError:
        raise UserError(f'reading {source} needs the library datasets: pip install "mixling[hf]"') from None
    number = 0
    try:  # the library lets through errors of many others: network, file systems, archives, Arrow
        if (Path(name) / "state.json").is_file() or (Path(name) / "dataset_dict.json").is_file():
            table = datasets.load_from_disk(name)
            table = table[split or "train"] if isinstance(table, dict) else table
        else:
            # Streaming leaves the set where it is; only a slice such as train[:100] cannot be streamed.
            base, revision = split_revision(pinned(name, "dataset"))
            table = datasets.load_dataset(
                base,
                split=split or "train",
                revision=revision,
                streaming="[" not in split,
                trust_remote_code=False,
            )
        features = table.features or {}
        for number, values in enumerate(table, 1):
            yield Row({key: _names(value, features.get(key)) for key, value in values.items()}, source, number)
    except Exception as error:
        message = f"cannot be read: {type(error).__name__}: {error}; the form is hf:NAME[@REVISION][:SPLIT]"
        raise DataError(message, path=source, line=number or None) from error
    if not number:
        raise DataError("has no rows; at least one row is needed", path=source)


def _names(value: Any, feature: Any) -> Any:
    """Class numbers of a hub data set as the names that it declares; -1 is the hub's sign for no label."""
    if isinstance(value, Iterable) and not isinstance(value, str):
        inner = getattr(feature, "feature", None)
        return [_names(item, inner) for item in value] if hasattr(inner, "int2str") else value
    if value is None or not hasattr(feature, "int2str"):
        return value
    return None if value == -1 else feature.int2str(value)
