"""Read the texts of JSON lines quickly, as long as every row is an object with a text and, if at all, a label.

Rows of files are mostly such; to check one, to make an example of it and to remember its line takes several times as
long as to parse it, and longer than to predict. What is not plain is left to `read_examples`, which has the errors.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NoReturn

from mixling.data.readers import format_of_name
from mixling.data.readers.jsonl import unique
from mixling.data.readers.rows import open_file

_CHUNK = 1 << 19  # bytes that are read at a time
_LONGEST = 1 << 20  # bytes of a plain row
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
    path = Path(source)
    if format_of_name(source) != "jsonl" or not path.is_file():
        yield None
        return
    with ExitStack() as stack:
        file, rest, empty = open_file(path, stack), b"", True
        try:
            while chunk := file.read(_CHUNK):
                *lines, rest = (rest + chunk).split(b"\n")
                if len(rest) > _LONGEST:
                    break
                if lines:
                    yield _texts_of(lines, text, label)
                    empty = False
            else:
                if rest:
                    yield _texts_of([rest], text, label)
                elif empty:
                    yield None
                return
        except (_NotPlainError, OSError, EOFError):  # of a row, or of a damaged gzip file
            pass
        yield None


def _texts_of(lines: list[bytes], text: str, label: str) -> list[str]:
    """Return the texts of lines, most of which have a text and nothing else, without escapes."""
    name = json.dumps(text).encode()
    match = re.compile(rb'\{%b: ?"([^"\\\x00-\x1f]+)"\}' % re.escape(name)).fullmatch
    try:
        texts = [str(found[1], "utf-8") if (found := match(line)) else _text_of(line, text, label) for line in lines]
    except UnicodeDecodeError:
        raise _NotPlainError from None
    if any(map(str.isspace, texts)):
        raise _NotPlainError
    return texts


def _refuse(name: str) -> NoReturn:
    raise ValueError(name)


_scan = json.JSONDecoder(parse_constant=_refuse).scan_once  # type: ignore[attr-defined]
_scan_pairs = json.JSONDecoder(parse_constant=_refuse, object_pairs_hook=unique).scan_once  # type: ignore[attr-defined]


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
