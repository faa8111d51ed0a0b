"""Stream texts for prediction: rows of files, and lines of a stream as they arrive."""

from __future__ import annotations

import codecs
import io
import itertools
import select
import sys
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Literal, Protocol, TypeVar, cast

from mixling.data.readers.encodings import conversion
from mixling.data.readers.files import STDIN, open_file
from mixling.data.readers.lines import MAX_LINE, is_utf16, read_lines
from mixling.data.readers.rows import OnBadRow
from mixling.errors import DataError
from mixling.text.encoder import Text, text_size

if TYPE_CHECKING:  # imported only to read files: predicting a text of the command line does without
    from mixling.data.config import ColumnsConfig
    from mixling.data.examples import Example, ExampleBlock, RowReader
    from mixling.data.kept import KeptColumns

WINDOW = 4096  # rows of a file in memory at a time
MAX_WINDOW = 64 << 20  # characters of their texts
_CHUNK = 1 << 16


class PlainTexts(list[str]):
    """A window of texts without errors and without values to keep."""


@dataclass(frozen=True, slots=True)
class Item:
    """A text to predict for, or the error of its row.

    Attributes:
        kept: values of the row that are written with its prediction.
        place: where the text is from, for messages.
    """

    text: Text | None
    error: str | None = None
    kept: Mapping[str, Any] = field(default_factory=dict)
    place: str = ""

    @property
    def size(self) -> int:
        """The characters of the text and of the values kept of its row."""
        return text_size(self.text) + sum(len(value) for value in self.kept.values() if isinstance(value, str))


class _Sized(Protocol):
    @property
    def size(self) -> int:
        """In characters."""


_S = TypeVar("_S", bound=_Sized)


def file_items(
    sources: Sequence[str],
    *,
    reader: type[RowReader],
    columns: ColumnsConfig,
    skip: bool,
    keep: Sequence[str] = (),
    report: OnBadRow | None = None,
) -> Iterator[list[Item]]:
    """Stream the rows of files as windows of items; a `.txt` file has a text on each line, empty ones included.

    Rows of standard input (`<stdin>`) are yielded as they arrive.

    Args:
        skip: make an item with an error of each bad row, so that predictions stay aligned with rows.
        keep: columns whose values are kept.
        report: receives how many lines and rows each file has, and the notes of readers.

    Raises:
        DataError: a file cannot be read or lacks a column that is to be kept, or a row is bad (unless `skip`). The rows
            before it are yielded first.
    """
    from mixling.data.corpora import is_plain
    from mixling.data.kept import KeptColumns

    def items(source: str) -> Iterator[Item | None]:
        if not is_plain(source):
            return _rows(source, reader, columns, skip, KeptColumns(keep), report)
        if keep:
            raise DataError(f"no column {keep[0]!r}; the lines of a text file have no columns", path=source)
        return text_lines(source, skip)

    return in_windows(itertools.chain.from_iterable(map(items, sources)))


def plain_or_items(
    source: str, *, reader: type[RowReader], columns: ColumnsConfig, skip: bool, report: OnBadRow | None = None
) -> Iterator[PlainTexts | list[Item]]:
    """Stream the rows of a file as `file_items` does, but the rows of an `ExampleBlock` as texts alone."""
    from mixling.data.corpora import is_plain
    from mixling.data.examples import Example, read_blocks
    from mixling.data.kept import KeptColumns

    if is_plain(source):
        yield from file_items([source], reader=reader, columns=columns, skip=skip, report=report)
        return
    bad = _BadItems(KeptColumns(()), "skip" if skip else "error", report)
    blocks = read_blocks([source], reader=reader, columns=columns, on_bad_row=bad, labeled=False)
    for kind, group in itertools.groupby(blocks, type):
        if kind is Example:
            yield from in_windows(_items(cast("Iterator[Example]", group), bad, live=source == STDIN))
            continue
        for block in cast("Iterator[ExampleBlock]", group):
            yield from in_windows(iter(bad.taken()))
            yield PlainTexts(block.texts)
    yield from in_windows(iter(bad.taken()))


def in_windows(items: Iterator[_S | None], most: int = WINDOW) -> Iterator[list[_S]]:
    """Yield the items in lists of up to `most` and about `MAX_WINDOW` characters, which end at None.

    Raises:
        DataError: raised by `items`. The items before it are yielded first.
    """
    window: list[_S] = []
    size = 0
    try:
        for item in items:
            if item is not None:
                window.append(item)
                size += item.size
            if len(window) >= most or size > MAX_WINDOW or (item is None and window):
                yield window
                window = []
                size = 0
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


def _rows(
    source: str,
    reader: type[RowReader],
    columns: ColumnsConfig,
    skip: bool,
    kept: KeptColumns,
    report: OnBadRow | None,
) -> Iterator[Item | None]:
    from mixling.data.examples import read_examples

    bad = _BadItems(kept, "skip" if skip else "error", report)
    reader = kept.reader(reader)
    examples = read_examples([source], reader=reader, columns=columns, on_bad_row=bad, labeled=False)
    yield from _items(examples, bad, live=source == STDIN)


def _items(examples: Iterable[Example], bad: _BadItems, *, live: bool = False) -> Iterator[Item | None]:
    """Yield the items of examples, and of the bad rows before and after them.

    Args:
        live: yield None before waiting for the next row.
    """
    for example in examples:
        yield from bad.taken()
        of_question = {"id": example.id} if example.id is not None and not bad.kept.names else {}
        yield Item(example.text, kept=of_question | bad.kept.take(example.line))
        if live and (example.line == bad.lines_read or not _is_at_hand()):
            yield None
    yield from bad.taken()


def _is_at_hand() -> bool:
    """Return whether more of standard input can be read without waiting."""
    try:
        return bool(select.select([sys.stdin.buffer], [], [], 0)[0])
    except (OSError, ValueError):  # it is none of the operating system
        return True


class _BadItems(OnBadRow):
    """Makes items of bad rows that are skipped; `report` receives counts and notes."""

    def __init__(self, kept: KeptColumns, mode: Literal["error", "skip"], report: OnBadRow | None) -> None:
        super().__init__(mode)
        if report is not None:
            self.counts = report.counts
            self.notes = report.notes
        self.kept = kept
        self._items = list[Item]()

    def __call__(self, error: DataError) -> None:
        super().__call__(error)
        self._items.append(Item(None, self.messages.pop(), kept=self.kept.take(error.line)))

    def taken(self) -> list[Item]:
        """Return the items since the last call."""
        items = self._items
        self._items = []
        return items


def stream_items(stream: BinaryIO, name: str, *, skip: bool = False) -> Iterator[list[Item]]:
    """Yield the lines of a stream as they arrive: all that are available, without waiting for more.

    So a line written to an interactive pipe is yielded at once, and a fast pipe yields large windows.

    Args:
        skip: make an item with an error of each bad line.

    Raises:
        DataError: a line is not UTF-8 or longer than 16 MiB, unless `skip`; the lines before it are yielded first.
    """
    # of the line; bytes in `parts`
    number = 0
    size = 0
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
            parts = []
            size = 0
        if rest and size <= MAX_LINE:  # the rest of an endless line is dropped
            parts.append(rest)
            size += len(rest)
        if parts and (not chunk or (size > MAX_LINE and not skip)):
            lines.append(b"".join(parts))
            parts = []
            size = 0
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
        raise DataError(f"{got}; {conversion(line, name, error.start)}", path=name, line=number) from None
