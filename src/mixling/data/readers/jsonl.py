"""Read JSON lines: one flat object per line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from mixling.data.readers.rows import OnBadRow, Row, nul_error, refuse_constant
from mixling.errors import DataError


def read_jsonl(
    lines: Iterator[str], path: str, on_bad_row: OnBadRow, *, first_line: int | None = None
) -> Iterator[Row]:
    """Stream the objects of a file; blank lines are skipped.

    Args:
        first_line: the lines are a part of the file, which begins at this line and may be empty.

    Raises:
        DataError: the file is an array or empty; or a line is not an object, unless `on_bad_row` skips it.
    """
    empty = first_line is None
    for number, line in enumerate(lines, first_line or 1):
        if not line.strip():
            continue
        if empty and line.lstrip()[0] == "[":
            message = "is a JSON array; convert it to one object per line: jq -c '.[]' OLD.json > NEW.jsonl"
            raise DataError(message, path=path, line=number)
        empty = False
        if "\0" in line:
            on_bad_row(nul_error(path, number))
            continue
        try:
            values = json.loads(line.rstrip("\r\n"), object_pairs_hook=unique, parse_constant=refuse_constant)
        except json.JSONDecodeError as error:
            remedy = "allowed: one complete JSON object per line (convert: jq -c . OLD > NEW)"
            message = f"column {error.colno}: bad JSON: {error.msg}; {remedy}"
        except (ValueError, RecursionError) as error:
            message = f"bad JSON: {error}; allowed: one flat JSON object per line"
        else:
            if isinstance(values, dict):
                yield Row(values, path, number, own_columns=True)
                continue
            message = f'got {line.strip()[:40]}; allowed: an object, such as {{"text": "...", "label": "..."}}'
        on_bad_row(DataError(message, path=path, line=number))
    if empty:
        raise DataError("is empty; one JSON object per line is required", path=path)


def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object of its pairs; raise a ValueError if a key occurs twice."""
    values = dict(pairs)
    if len(values) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"key {next(name for name in names if names.count(name) > 1)!r} occurs twice")
    return values
