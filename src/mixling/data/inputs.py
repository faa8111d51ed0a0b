"""Stream texts for prediction: rows of files, and lines of a stream as they arrive."""

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

from mixling.data.readers.files import open_file
from mixling.data.readers.lines import CONVERT, MAX_LINE, is_utf16, read_lines
from mixling.data.readers.rows import OnBadRow
from mixling.errors import DataError
from mixling.text.encoder import Text

if TYPE_CHECKING:  # imported only to read files: predicting a text of the command line does without
    from mixling.data.config import ColumnsConfig
    from mixling.data.examples import Example, ExampleBlock, RowReader

WINDOW = 4096  # rows of a file in memory at a time
_CHUNK = 1 << 16


class PlainTexts(list[str]):
    """A window of texts, none of which has an error or an id."""


@dataclass(frozen=True, slots=True)
class Item:
    """A text to predict for, or the error of its row; and the id of a question, if it has one."""

    text: Text | None
    error: str | None = None
    id: str | None = None


def file_items(
    sources: Sequence[str], *, reader: type[RowReader], columns: ColumnsConfig, skip: bool
) -> Iterator[list[Item]]:
    """Stream the rows of files as windows of items; a `.txt` file has a text on each line, empty ones included.

    Args:
        skip: make an item with an error of each bad row, so that predictions stay aligned with rows.

    Raises:
        DataError: a file cannot be read, or a row is bad (unless `skip`). The rows before it are yielded first.
    """
    from mixling.data.corpora import is_plain

    items = itertools.chain.from_iterable(
        text_lines(source, skip) if is_plain(source) else _rows(source, reader, columns, skip) for source in sources
    )
    return in_windows(items)


def plain_or_items(
    source: str, *, reader: type[RowReader], columns: ColumnsConfig, skip: bool
) -> Iterator[PlainTexts | list[Item]]:
    """Stream the rows of a file as `file_items` does, but those of an `ExampleBlock` as texts alone."""
    from mixling.data.corpora import is_plain
    from mixling.data.examples import Example, read_blocks

    if is_plain(source):
        yield from file_items([source], reader=reader, columns=columns, skip=skip)
        return
    bad = OnBadRow("skip" if skip else "error", keep=2**63)
    blocks = read_blocks([source], reader=reader, columns=columns, on_bad_row=bad, labeled=False)
    for kind, group in itertools.groupby(blocks, type):
        if kind is Example:
            yield from in_windows(_items(cast("Iterator[Example]", group), bad))
            continue
        for block in cast("Iterator[ExampleBlock]", group):
            yield from in_windows(iter(_errors(bad)))
            yield PlainTexts(block.texts)
    yield from in_windows(iter(_errors(bad)))


def in_windows(items: Iterator[Item]) -> Iterator[list[Item]]:
    """Yield the items in lists of up to `WINDOW`.

    Raises:
        DataError: raised by `items`. The items before it are yielded first.
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
    """Yield the lines of a plain text file, empty ones included."""
    with ExitStack() as stack:
        file = open_file(Path(source), stack)
        if skip and not is_utf16(cast(io.BufferedReader, file).peek(4)[:4]):
            yield from itertools.chain.from_iterable(stream_items(file, source, skip=True))
            return
        for line in read_lines(file, source):
            yield Item(line.rstrip("\r\n"))


def _rows(source: str, reader: type[RowReader], columns: ColumnsConfig, skip: bool) -> Iterator[Item]:
    from mixling.data.examples import read_examples

    bad = OnBadRow("skip" if skip else "error", keep=2**63)
    yield from _items(read_examples([source], reader=reader, columns=columns, on_bad_row=bad, labeled=False), bad)


def _items(examples: Iterable[Example], bad: OnBadRow) -> Iterator[Item]:
    """Yield the items of examples, and those of the bad rows before and after them."""
    for example in examples:
        yield from _errors(bad)
        yield Item(example.text, id=example.id)
    yield from _errors(bad)


def _errors(bad: OnBadRow) -> Iterable[Item]:
    errors = [Item(None, message) for message in bad.messages]
    bad.messages.clear()
    return errors


def stream_items(stream: BinaryIO, name: str, *, skip: bool = False) -> Iterator[list[Item]]:
    """Yield the lines of a stream as they arrive: all that are available, without waiting for more.

    So a line written to an interactive pipe is yielded at once, and a fast pipe yields large windows.

    Args:
        skip: make an item with an error of each bad line.

    Raises:
        DataError: a line is not UTF-8 or longer than 16 MiB, unless `skip`; the lines before it are yielded first.
    """
    number, size = 0, 0  # of the line; bytes in `parts`
    parts: list[bytes] = []  # of the incomplete line
    while True:
        try:
            chunk = stream.read1(_CHUNK)  # type: ignore[attr-defined]
        except (OSError, EOFError, zlib.error) as error:  # the latter two come from damaged gzip files
            message = f"cannot be read: {getattr(error, 'strerror', None) or error}"
            raise DataError(message, path=name, line=number + 1) from None
        *ends, rest = chunk.split(b"\n")
        lines = []
        for end in ends:
            lines.append(b"".join([*parts, end]))
            parts, size = [], 0
        if rest and size <= MAX_LINE:  # the rest of an endless line is dropped
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
        raise DataError(f"{got}; {CONVERT}", path=name, line=number) from None
