"""Read JSON lines: one flat object per line."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import msgspec

from mixling.data.readers.lines import Texts
from mixling.data.readers.rows import MAX_CELL_VALUES, OnBadRow, Row, RowBlock, nul_error
from mixling.errors import DataError, shown

_BLANK_BEFORE_COLON = re.compile(r'"\s+:')
_decode_lines = msgspec.json.Decoder(dict[str, Any]).decode_lines


def read_jsonl(texts: Texts, path: str, on_bad_row: OnBadRow, *, is_part: bool = False) -> Iterator[Row | RowBlock]:
    """Stream the objects of a file; blank lines are skipped.

    Args:
        is_part: the lines are a part of the file, which may be empty.

    Raises:
        DataError: the file is empty; lists have too many values; or a line is not an object, unless `on_bad_row` skips
            it.
    """
    empty = not is_part
    for first, text in texts:
        if (objects := _objects(text, path, first)) is not None:
            empty = False
            _check_lists(objects, text, path, first)
            yield RowBlock(objects, path, first)
            continue
        for number, line in enumerate(text.removesuffix("\n").split("\n"), first):
            if not line.strip():
                continue
            empty = False
            if (objects := _objects(line, path, number)) is not None:
                _check_lists(objects, line, path, number)
                yield Row(objects[0], path, number, own_columns=True)
                continue
            try:
                yield Row(_object(line, path, number), path, number, own_columns=True)
            except DataError as error:
                on_bad_row(error)
    if empty:
        raise DataError("is empty; one JSON object per line is required", path=path)


def _objects(text: str, path: str, first: int) -> list[dict[str, Any]] | None:
    """Return the objects of lines quickly; None if a line has something that only `_object` explains."""
    try:
        objects = _decode_lines(text)
    except (msgspec.MsgspecError, RecursionError):
        return None
    if len(objects) != text.count("\n") + (not text.endswith("\n")):
        return None
    # As many keys as colons after quotes: none is twice. In a text, there is a backslash before such a quote.
    if _keys(text) == sum(map(len, objects)):
        return objects
    for index, (line, values) in enumerate(zip(text.split("\n"), objects, strict=False)):
        if _keys(line) != len(values):
            try:
                _object(line, path, first + index)
            except DataError:
                return None
    return objects


def _check_lists(objects: list[dict[str, Any]], text: str, path: str, first: int) -> None:
    """Refuse a cell whose lists and objects have very many values: small in a file, large in memory."""
    if text.count(",") < MAX_CELL_VALUES:
        return
    for number, values in enumerate(objects, first):
        for name, cell in values.items():
            rest, size = [cell], 0
            while rest and size <= MAX_CELL_VALUES:
                inner = rest.pop()
                size += len(inner) if isinstance(inner, list | dict) else 0
                rest += inner.values() if isinstance(inner, dict) else inner if isinstance(inner, list) else ()
            if size > MAX_CELL_VALUES:
                message = f"{shown(name)}: has lists of more than the {MAX_CELL_VALUES:,} values that are allowed"
                raise DataError(message, path=path, line=number)


def _keys(text: str) -> int | None:
    """Return the number of keys in JSON, inner objects included; None if it is written in another way."""
    if '\\\\":' in text or _BLANK_BEFORE_COLON.search(text):
        return None
    return text.count('":') - text.count('\\":')


def _object(line: str, path: str, number: int) -> dict[str, Any]:
    """Return the object of a line, which is not blank."""
    if "\0" in line:
        raise nul_error(path, number)
    try:
        values = json.loads(line, object_pairs_hook=unique, parse_constant=refuse_constant)
    except json.JSONDecodeError as error:
        remedy = "allowed: one complete JSON object per line (convert: jq -c . OLD > NEW)"
        message = f"column {error.colno}: bad JSON: {error.msg}; {remedy}"
    except (ValueError, RecursionError) as error:
        message = f"bad JSON: {error}; allowed: one flat JSON object per line"
    else:
        if isinstance(values, dict):
            return values
        message = f'got {line.strip()[:40]}; allowed: an object, such as {{"text": "...", "label": "..."}}'
    raise DataError(message, path=path, line=number) from None


def refuse_constant(name: str) -> None:
    """Reject NaN and infinities, which Python's JSON parser accepts."""
    raise ValueError(f"{name} is not JSON")


def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object of its pairs; raise a ValueError if a key occurs twice."""
    values = dict(pairs)
    if len(values) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"key {next(name for name in names if names.count(name) > 1)!r} occurs twice")
    return values
