"""Where the rows of `predict` and `evaluate` come from: columns, files and lines that arrive on standard input."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from mixling.config import parse
from mixling.data.examples import ColumnsConfig, Task, read_examples
from mixling.data.rows import MAX_LINE, OnBadRow, open_file, read_lines
from mixling.errors import DataError, ModelFileError
from mixling.text.encoder import Text

WINDOW = 4096  # rows of a file that are held at a time
_CHUNK = 1 << 16


@dataclass(frozen=True, slots=True)
class Item:
    """A text to answer for, or why the row has none."""

    text: Text | None
    error: str | None = None


def columns_for(model: str, given: Mapping[str, str | None]) -> ColumnsConfig:
    """The columns that were given, else those that the model in a run folder was trained on, else the usual ones.

    Raises:
        ModelFileError: the folder's run.json is damaged.
    """
    path = Path(model) / "run.json"
    known = {}
    try:
        known = dict(json.loads(path.read_text("utf-8"))["config"]["data"]["columns"])
    except (FileNotFoundError, NotADirectoryError):
        pass  # a model.onnx alone
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ModelFileError(f"{path}: is damaged: {error}") from None
    given = {key: value for key, value in given.items() if value is not None}
    return parse(ColumnsConfig, {**known, **given}, where=str(path))


def file_items(sources: Sequence[str], *, task: Task, columns: ColumnsConfig, skip: bool) -> Iterator[list[Item]]:
    """The rows of files, one item each, in windows; a `.txt` file has a text on each line, empty ones included.

    Args:
        skip: a bad row becomes an item with its error, so that answers stay beside their rows.

    Raises:
        DataError: a file that cannot be read; a bad row, unless `skip`.
    """
    items = itertools.chain.from_iterable(
        _text_lines(source) if is_text_file(source) else _rows(source, task, columns, skip) for source in sources
    )
    while window := list(itertools.islice(items, WINDOW)):
        yield window


def is_text_file(source: str) -> bool:
    """Whether a file has lines of plain text."""
    return source.lower().removesuffix(".gz").endswith(".txt")


def _text_lines(source: str) -> Iterator[Item]:
    with ExitStack() as stack:
        for line in read_lines(open_file(Path(source), stack), source):
            yield Item(line.rstrip("\r\n"))


def _rows(source: str, task: Task, columns: ColumnsConfig, skip: bool) -> Iterator[Item]:
    bad = OnBadRow("skip" if skip else "error", keep=2**63)
    examples = read_examples([source], task=task, columns=columns, on_bad_row=bad, labelled=False)
    for example in examples:
        yield from _errors(bad)
        yield Item(example.text)
    yield from _errors(bad)


def _errors(bad: OnBadRow) -> Iterable[Item]:
    errors = [Item(None, message) for message in bad.messages]
    bad.messages.clear()
    return errors


def stream_items(stream: BinaryIO, name: str) -> Iterator[list[Item]]:
    """The lines of a stream as they arrive: all that is there at once, without waiting for more.

    A line written to an interactive pipe is answered at once, and a fast pipe still gives large windows.

    Raises:
        DataError: a line is not UTF-8, or longer than 16 MiB.
    """
    number, rest = 0, b""
    while True:
        chunk = stream.read1(_CHUNK)  # type: ignore[attr-defined]
        *lines, rest = (rest + chunk).split(b"\n")
        if not chunk:
            lines, rest = ([rest] if rest else []), b""
        if len(rest) > MAX_LINE:
            raise DataError(f"the line is longer than {MAX_LINE >> 20} MiB", path=name, line=number + len(lines) + 1)
        items = [Item(_decoded(line, name, number + i)) for i, line in enumerate(lines, 1)]
        number += len(lines)
        if items:
            yield items
        if not chunk:
            return


def _decoded(line: bytes, name: str, number: int) -> str:
    try:
        return (line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line).removesuffix(b"\r").decode("utf-8")
    except UnicodeDecodeError as error:
        got = f"byte 0x{line[error.start]:02x} (byte {error.start + 1} of the line) is not UTF-8"
        raise DataError(f"{got}; convert it first, for example with iconv", path=name, line=number) from None
