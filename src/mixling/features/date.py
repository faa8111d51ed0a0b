"""Dates: the day of the week, the month, and how long ago."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import date, timedelta
from typing import Any

import numpy as np

from mixling.features.kind import ColumnKind, scale_of
from mixling.native import _core

_DAY_FIRST, _MONTH_FIRST = 2, 3  # as `_core.date` tells what a date shows


class Date(ColumnKind):
    """A date, with or without a time, such as `2024-03-01T10:00:00Z`, `1.3.2024` or `1 March 2024`.

    Whether `03/01/2024` is of March or of January, the other dates of the column show; without any, it is of March. The
    time of the day and its zone are not read.
    """

    name = "date"
    what = "a date"

    @classmethod
    def reads(cls, cell: str) -> bool:
        return _core.date(cell, False) is not None

    @classmethod
    def recognize(cls, cells: Sequence[str]) -> bool:
        return not all(_core.number(cell) is not None for cell in cells) and super().recognize(cells)

    @classmethod
    def describe(cls, cells: Sequence[str | None]) -> dict[str, Any]:
        read = [_core.date(cell, False) for cell in cells if cell is not None]
        orders = Counter(found[1] for found in read if found)
        day_first = orders[_DAY_FIRST] > orders[_MONTH_FIRST]
        days = [found[0] for found in (_core.date(cell, day_first) for cell in cells if cell is not None) if found]
        return {"day_first": day_first, **scale_of(np.array(days, np.float64))}

    @classmethod
    def summary(cls, description: dict[str, Any]) -> str:
        first, last = (date(1970, 1, 1) + timedelta(description["knots"][i]) for i in (0, -1))
        return f"{first} to {last}" + (", the day first" if description["day_first"] else "")
