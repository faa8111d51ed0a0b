"""Read the texts of JSON lines quickly, as long as every row is an object with a text and, if at all, a label.

Rows of files are mostly such; to check one, to make an example of it and to remember its line takes several times as
long as to parse it, and longer than to predict. What is not plain is left to `read_rows`, which has the errors.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from mixling.data.readers import format_of_name
from mixling.data.readers.jsonl import unique
from mixling.data.readers.rows import open_file

_CHUNK = 1 << 19  # bytes that are read at a time
_LONGEST = 1 << 20  # bytes of a plain row
_T = TypeVar("_T")
_BLANKS = re.compile(r"[ \t\r]*")
_BEFORE_COLONS = (b" :", b"\t:", b"\r:")


class _NotPlainError(Exception):
    """A row is left to `read_examples`."""


def plain_rows(source: str, *, text: str, label: str) -> Iterator[list[str] | None]:
    """Yield windows of the texts of a JSONL file; None, as the last one, if there are rows after them.

    Args:
        source: the name of the file as the user wrote it; of other files, and pipes, no text is plain.
        text, label: the names of the columns.

    Raises:
        DataError: the file cannot be read.
    """
    yield from _windows(source, lambda content: _texts_of(content.split(b"\n"), text, label))


def plain_columns(source: str, *, text: str, label: str) -> Iterator[tuple[list[str], list[Any]] | None]:
    """Yield windows of the texts and the labels, as JSON has them, as `plain_rows` does; each row must have both."""
    yield from _windows(source, lambda content: _columns_of(str(content, "utf-8"), text, label))


def _windows(source: str, parse: Callable[[bytes], _T]) -> Iterator[_T | None]:
    path = Path(source)
    if format_of_name(source) != "jsonl" or not path.is_file():
        yield None
        return
    with ExitStack() as stack:
        file, rest, empty = open_file(path, stack), b"", True
        try:
            while chunk := file.read(_CHUNK):
                content, end, after = chunk.rpartition(b"\n")
                if end:
                    yield parse(rest + content)
                    rest, empty = after, False
                else:
                    rest += chunk
                if len(rest) > _LONGEST:
                    break
            else:
                if rest:
                    yield parse(rest)
                elif empty:
                    yield None
                return
        except (_NotPlainError, UnicodeDecodeError, OSError, EOFError):  # of a row, or of a damaged gzip file
            pass
        yield None


def _texts_of(lines: list[bytes], text: str, label: str) -> list[str]:
    """Return the texts of lines, most of which have a text and nothing else, without escapes."""
    name = json.dumps(text).encode()
    match = re.compile(rb'\{%b: ?"([^"\\\x00-\x1f]+)"\}' % re.escape(name)).fullmatch
    texts = [str(found[1], "utf-8") if (found := match(line)) else _text_of(line, text, label) for line in lines]
    if any(map(str.isspace, texts)):
        raise _NotPlainError
    return texts


def _refuse(name: str) -> NoReturn:
    raise ValueError(name)


_scan = json.JSONDecoder(parse_constant=_refuse).scan_once  # type: ignore[attr-defined]
_scan_pairs = json.JSONDecoder(parse_constant=_refuse, object_pairs_hook=unique).scan_once  # type: ignore[attr-defined]


def _columns_of(content: str, text: str, label: str) -> tuple[list[str], list[Any]]:
    """Return the texts and the labels of lines without the last line feed."""
    rows: list[dict[str, Any]] = []
    at = 0
    try:
        while at < len(content):
            values, end = _scan(content, at)
            rows.append(values)
            if content[end : end + 1] not in ("", "\n"):
                end = _BLANKS.match(content, end).end()  # type: ignore[union-attr]
                if content[end : end + 1] not in ("", "\n"):
                    raise _NotPlainError
            at = end + 1
        # As many line feeds, and as many keys as colons after quotes: none is between the lines, or twice.
        keys = sum(map(len, rows))
        if content.count("\n") + 1 != len(rows) or set(map(type, rows)) != {dict}:
            raise _NotPlainError
        if content.count('":') != keys or any(before in content for before in (" :", "\t:", "\r:", "\n:")):
            rows = [_scan_pairs(line, 0)[0] for line in content.split("\n")]
        texts, labels = [row[text] for row in rows], [row[label] for row in rows]
    except (ValueError, StopIteration, RecursionError, LookupError, TypeError):
        raise _NotPlainError from None
    if set(map(type, texts)) != {str} or "" in texts or any(map(str.isspace, texts)):
        raise _NotPlainError
    return texts, labels


def _text_of(line: bytes, text: str, label: str) -> str:
    """Return the text of a line."""
    try:
        row = str(line, "utf-8")
        values: Any
        values, end = _scan(row, 0)
        # As many keys as colons after quotes: none is twice. A text may have such colons, too.
        if line.count(b'":') != len(values) or any(before in line for before in _BEFORE_COLONS):
            values, end = _scan_pairs(row, 0)
        out = values[text]
        given = values.get(label)
    except (ValueError, StopIteration, RecursionError, LookupError, TypeError, AttributeError):
        raise _NotPlainError from None
    if type(out) is not str or not out or out.isspace() or b"\0" in line or not line.startswith(b"{"):
        raise _NotPlainError
    if end != len(row) and row[end:].strip(" \t\r"):
        raise _NotPlainError
    if given is not None and (type(given) is not str or not given or given.isspace() or not given.isascii()):
        raise _NotPlainError
    return out
