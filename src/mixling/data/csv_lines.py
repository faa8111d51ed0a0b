"""Write rows of CSV, and values of tables as JSON and in cells of CSV."""

from __future__ import annotations

import csv
import io
import json
import math
import re
from collections.abc import Sequence
from typing import Any

_FORMULA = re.compile(r"(?!-?\d+(\.\d+)?\Z)[=+\-@\t\r]")


def csv_line(fields: Sequence[Any], *, escape: bool = False) -> str:
    """Return a CSV row with its line end.

    Args:
        escape: put an apostrophe before values that a spreadsheet would read as a formula; numbers are unchanged.
    """
    line = io.StringIO()
    if escape:
        fields = [f"'{field}" if _FORMULA.match(str(field)) else field for field in fields]
    csv.writer(line).writerow(fields)  # with the default line end, so that both of its characters are quoted in fields
    return line.getvalue().removesuffix("\r\n") + "\n"


def cell_of(value: Any) -> Any:
    """Return a value of a table as `csv_line` takes it."""
    if isinstance(value, bool):
        return str(value).lower()
    return json_of(value) if isinstance(value, dict | list | tuple) else value


def json_of(value: Any) -> str:
    """Return a value of a table as JSON, in which NaN and infinities are null, and other types strings."""
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False, default=str)
    except ValueError:
        return json.dumps(_finite(value), ensure_ascii=False, allow_nan=False, default=str)


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {name: _finite(item) for name, item in value.items()}
    return [_finite(item) for item in value] if isinstance(value, list | tuple) else value
