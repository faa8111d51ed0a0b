"""Texts that carry the values of the columns beside them."""

from __future__ import annotations

from mixling.errors import DataError, near_miss, shown
from mixling.lazy import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from mixling.text.encoder import Text


Cells = tuple[str | None, ...]
"""The values of the columns beside a text, as in a file; None where one is missing."""


class TextWithCells(str):
    """A text with the cells of its row; everything that reads texts reads it as the string."""

    __slots__ = ("cells",)
    cells: Cells


class TextsWithCells(tuple[str, ...]):
    """Texts that belong together, with the cells of their row."""

    cells: Cells


def with_cells(text: Text, cells: Cells | None) -> Text:
    """Return a text, or several, with cells; None: as it is."""
    if cells is None:
        return text
    assert not isinstance(text, list), "columns stand beside texts, not lists of words"
    found: Any = TextWithCells(text) if isinstance(text, str) else TextsWithCells(text)
    found.cells = cells
    kept: Text = found
    return kept


def with_missing(text: Text, columns: Sequence[str]) -> Text:
    """Return a text, or several, without a value of any of these columns; without columns as it is."""
    return with_cells(text, (None,) * len(columns) or None)


def cells_of(text: object) -> Cells | None:
    """Return the cells of a text; None: it has none."""
    return getattr(text, "cells", None)


def as_cell(value: Any) -> str | None:
    """Return a value of Python, JSON or a table as a cell: text as it is, None and not-a-number as missing.

    Raises:
        TypeError: it is a list, an object or another value that no cell has.
    """
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return None if value != value else str(int(value)) if value.is_integer() else repr(value)
    if hasattr(value, "isoformat"):  # dates; pandas' NaT is not equal to itself
        return None if value != value else str(value.isoformat())
    if hasattr(value, "item") and not getattr(value, "shape", ()):  # numbers of NumPy
        return as_cell(value.item())
    if type(value).__name__ == "Decimal":
        return str(value)
    if type(value).__name__ in ("NAType", "NaTType"):
        return None
    raise TypeError(type(value).__name__)


def cells_in(values: Mapping[str, Any], names: Sequence[str]) -> Cells:
    """Return the cells of some columns of a row of Python or JSON.

    Raises:
        DataError: a column is missing, or a value is none of a cell.
    """
    cells = []
    for name in names:
        if name not in values:
            raise DataError(f"no column {name!r}; {near_miss(name, values)}; a missing value is empty, or None")
        try:
            cells.append(as_cell(values[name]))
        except TypeError as error:
            got = f"column {name!r} is of type {error}: {shown(values[name])}"
            raise DataError(f"{got}; allowed: a text, a number, a date, or None") from None
    return tuple(cells)
