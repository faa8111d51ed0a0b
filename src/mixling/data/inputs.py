"""Texts to predict for as they come: rows of files, and lines of a stream as they arrive."""

from __future__ import annotations

import codecs
import io
import itertools
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, cast

from mixling.data.readers.rows import MAX_LINE, OnBadRow, open_file, read_lines
from mixling.errors import DataError
from mixling.text.encoder import Text

if TYPE_CHECKING:  # loaded by what reads files: a text on the command line is answered without
    from mixling.data.examples import ColumnsConfig, RowReader

WINDOW = 4096  # rows of a file that are held at a time
_CHUNK = 1 << 16


@dataclass(frozen=True, slots=True)
class Item:
    """A text to answer for, or why the row has none; and the name of a question that has one."""

    text: Text | None
    error: str | None = None
    id: str | None = None


def file_items(
    sources: Sequence[str], *, reader: type[RowReader], columns: ColumnsConfig, skip: bool
) -> Iterator[list[Item]]:
    """The rows of files, one item each, in windows; a `.txt` file has a text on each line, empty ones included.

    Args:
        skip: a bad row becomes an item with its error, so that answers stay beside their rows.

    Raises:
        DataError: a file that cannot be read; a bad row, unless `skip`. The rows before it came first.
    """
    from mixling.data.corpora import is_plain

    items = itertools.chain.from_iterable(
        text_lines(source, skip) if is_plain(source) else _rows(source, reader, columns, skip) for source in sources
    )
    return in_windows(items)


def in_windows(items: Iterator[Item]) -> Iterator[list[Item]]:
    """The items as they come, many at a time.

    Raises:
        DataError: that of an item. Those before it came first.
    """
    window: list[Item] = []
    try:
        for item in items:
            window.append(item)
            if len(window) == WINDOW:
                yield window
                window = []
    except DataError:
        if window:
            yield window
        raise
    if window:
        yield window


def text_lines(source: str, skip: bool) -> Iterator[Item]:
    """The lines of a file of plain text, empty ones included."""
    with ExitStack() as stack:
        file = open_file(Path(source), stack)
        if skip and cast(io.BufferedReader, file).peek(2)[:2] not in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
            yield from itertools.chain.from_iterable(stream_items(file, source, skip=True))
            return
        for line in read_lines(file, source):
            yield Item(line.rstrip("\r\n"))


def _rows(source: str, reader: type[RowReader], columns: ColumnsConfig, skip: bool) -> Iterator[Item]:
    from mixling.data.examples import read_examples

    bad = OnBadRow("skip" if skip else "error", keep=2**63)
    examples = read_examples([source], reader=reader, columns=columns, on_bad_row=bad, labeled=False)
    for example in examples:
        yield from _errors(bad)
        yield Item(example.text, id=example.id)
    yield from _errors(bad)


def _errors(bad: OnBadRow) -> Iterable[Item]:
    errors = [Item(None, message) for message in bad.messages]
    bad.messages.clear()
    return errors


def stream_items(stream: BinaryIO, name: str, *, skip: bool = False) -> Iterator[list[Item]]:
    """The lines of a stream as they arrive: all that is there at once, without waiting for more.

    A line written to an interactive pipe is answered at once, and a fast pipe still gives large windows.

    Args:
        skip: a bad line becomes an item with its error.

    Raises:
        DataError: a line is not UTF-8, or longer than 16 MiB, unless `skip`; the lines before it came first.
    """
    number, size = 0, 0
    parts: list[bytes] = []  # of the line that has not ended, and their bytes
    while True:
        try:
            chunk = stream.read1(_CHUNK)  # type: ignore[attr-defined]
        except (OSError, EOFError, zlib.error) as error:  # the latter two of a damaged gzip file
            message = f"cannot be read: {getattr(error, 'strerror', None) or error}"
            raise DataError(message, path=name, line=number + 1) from None
        *ends, rest = chunk.split(b"\n")
        lines = []
        for end in ends:
            lines.append(b"".join([*parts, end]))
            parts, size = [], 0
        if rest and size <= MAX_LINE:  # of a line that never ends no more is kept
            parts.append(rest)
            size += len(rest)
        if parts and (not chunk or (size > MAX_LINE and not skip)):
            lines.append(b"".join(parts))
            parts, size = [], 0
        items: list[Item] = []
        for line in lines:
            number += 1
            try:
                items.append(Item(_decoded(line, name, number)))
            except DataError as error:
                if skip:
                    items.append(Item(None, str(error)))
                    continue
                if items:
                    yield items
                raise
        if items:
            yield items
        if not chunk:
            return


def _decoded(line: bytes, name: str, number: int) -> str:
    if len(line) > MAX_LINE:
        raise DataError(f"the line is longer than {MAX_LINE >> 20} MiB", path=name, line=number)
    try:
        while number == 1 and line.startswith(codecs.BOM_UTF8):  # some programs write two
            line = line.removeprefix(codecs.BOM_UTF8)
        return line.removesuffix(b"\r").decode("utf-8")
    except UnicodeDecodeError as error:
        got = f"byte 0x{line[error.start]:02x} (byte {error.start + 1} of the line) is not UTF-8"
        raise DataError(f"{got}; convert it first, for example with iconv", path=name, line=number) from None
