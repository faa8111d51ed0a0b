"""Numbers: standardized, and by how near they are to some of the numbers of the training rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mixling.features.kind import ColumnKind, scale_of
from mixling.native import _core


class Number(ColumnKind):
    """A number, such as `5`, `1,234.50`, `$5`, `7 %` or `inf`."""

    name = "number"
    what = "a number"

    @classmethod
    def reads(cls, cell: str) -> bool:
        return _core.number(cell) is not None

    @classmethod
    def describe(cls, cells: Sequence[str | None]) -> dict[str, Any]:
        values = [np.nan if cell is None else _core.number(cell) for cell in cells]
        return scale_of(np.array(values, np.float64))

    @classmethod
    def summary(cls, description: dict[str, Any]) -> str:
        knots = description["knots"]
        return f"{knots[0]:g} to {knots[-1]:g}"
