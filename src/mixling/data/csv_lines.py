"""Write rows of CSV."""

from __future__ import annotations

import csv
import io
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
