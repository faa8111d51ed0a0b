"""The columns of a model: how they are guessed and described, and the vectors of rows."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from mixling.arrays import Float32
from mixling.errors import DataError, shown
from mixling.features.category import Category
from mixling.features.cells import Cells
from mixling.features.date import Date
from mixling.features.kind import ColumnKind, has_no_value
from mixling.features.kinds import KIND_NAMES
from mixling.features.number import Number
from mixling.native import _core

COLUMN_KINDS: dict[str, type[ColumnKind]] = dict(zip(KIND_NAMES, (Date, Number, Category), strict=True))
_LEAK = 0.995  # of the rows, whose label a column tells by itself
_MOST_FREQUENT = 0.9  # of the rows have the same label: then a column tells it easily


def check_cell(name: str, kind: str, cell: str | None) -> None:
    """Check that a cell is of its column's kind, or missing.

    Raises:
        DataError: it is neither.
    """
    if cell is not None and not has_no_value(cell) and not COLUMN_KINDS[kind].reads(cell):
        got = f"column {name!r} is not {COLUMN_KINDS[kind].what}: {shown(cell)}"
        raise DataError(f"{got}; empty it where it is missing")


class Columns:
    """The columns beside the texts of a model.

    Attributes:
        items: the description of each, as JSON.
        names: their names, in order.
        description: what a model file has, which `native/columns.c` reads.
    """

    def __init__(self, items: Sequence[dict[str, Any]]) -> None:
        self.items = tuple(items)
        self.names = tuple(str(item["name"]) for item in self.items)
        self.description = json.dumps(self.items, ensure_ascii=False, sort_keys=True)

    @classmethod
    def parse(cls, description: str) -> Columns:
        """Return the columns of a model file.

        Raises:
            ValueError: it has no such description.
        """
        _core.Columns(description)
        columns = cls(json.loads(description))
        if len(set(columns.names)) < len(columns.names):
            raise ValueError("it has two columns of one name")
        return columns

    @cached_property
    def _read(self) -> Any:
        return _core.Columns(self.description)

    @property
    def with_kinds(self) -> tuple[str, ...]:
        """The names with their kinds, such as "price:number"."""
        return tuple(f"{item['name']}:{item['kind']}" for item in self.items)

    @property
    def width(self) -> int:
        """The values of a vector."""
        return int(self._read.width)

    @cached_property
    def owners(self) -> list[int]:
        """The number of the column that each value of a vector is of."""
        widths = [_core.Columns(json.dumps([item])).width for item in self.items]
        return [number for number, width in enumerate(widths) for _ in range(width)]

    def encode(self, rows: Sequence[Cells | None], where: Callable[[int], str] = lambda row: f"item {row}") -> Float32:
        """Return the vectors (B, W) of rows.

        Args:
            where: names a row, for messages.

        Raises:
            DataError: a row has no cells, or a cell that is not of its column's kind.
        """
        for row, cells in enumerate(rows):
            if cells is None or len(cells) != len(self.names):
                raise DataError(
                    f"{where(row)} has no columns; this model reads {', '.join(self.names)} beside the text"
                )
        content, bad = self._read.encode([tuple(map(_without_surrogates, cells or ())) for cells in rows])
        if bad is not None:
            row, column = bad
            raise DataError(f"{where(row)}: {self.problem(column, (rows[row] or ())[column])}")
        return np.frombuffer(content, np.float32).reshape(len(rows), self.width)

    def problem(self, column: int, cell: str | None) -> str:
        """Describe a cell that is not of its column's kind."""
        what = COLUMN_KINDS[self.items[column]["kind"]].what
        return f"column {self.names[column]!r} is not {what}: {shown(cell)}; leave it empty where it is missing"

    def check(self, cells: Cells) -> str:
        """Describe the problem of a row's cells; return "" if there is none."""
        _, bad = self._read.encode([tuple(map(_without_surrogates, cells))])
        return "" if bad is None else self.problem(bad[1], cells[bad[1]])

    def summary(self) -> str:
        """Return the columns with their kinds in one line."""
        parts = [f"{item['name']} ({item['kind']}, {COLUMN_KINDS[item['kind']].summary(item)})" for item in self.items]
        return "; ".join(parts)


def _without_surrogates(cell: str | None) -> str | None:
    return None if cell is None else cell.encode("utf-8", "replace").decode()


def describe_columns(
    kinds: dict[str, str | None], rows: Sequence[Cells], where: Callable[[int], str] = lambda row: f"row {row + 1}"
) -> Columns:
    """Return the columns of training rows, whose kinds are guessed where they are not given.

    Args:
        where: names a row, for messages.

    Raises:
        DataError: a cell is not of the kind that was given.
    """
    items = []
    for number, (name, kind) in enumerate(kinds.items()):
        cells = [_without_surrogates(row[number]) for row in rows]
        known = [cell for cell in cells if cell is not None and not has_no_value(cell)]
        if kind is None:
            guessed = COLUMN_KINDS.values() if known else (Category,)
            kind = next(one.name for one in guessed if one.recognize(known))
        chosen = COLUMN_KINDS[kind]
        for row, cell in enumerate(cells if kind != "category" else ()):
            try:
                check_cell(name, kind, cell)
            except DataError as error:
                raise DataError(f"{where(row)}: {error}") from None
        items.append({"name": name, "kind": kind, **chosen.describe(cells)})
    return Columns(items)


def remarks(columns: Columns, rows: Sequence[Cells], targets: Sequence[object]) -> list[str]:
    """Return lines about columns that tell nothing, or that tell the target by themselves."""
    lines = []
    most = max(_counts(targets).values(), default=0)
    for number, name in enumerate(columns.names):
        values = [row[number] for row in rows]
        counts = _counts(values)
        missing = sum(number for value, number in counts.items() if has_no_value(value))
        if len(counts) < 2:
            lines.append(f"column {name!r} has one value in all rows, so it tells nothing")
            continue
        if missing:
            lines.append(f"column {name!r} has no value in {missing:,} of {len(rows):,} rows")
        repeated = sum(number for number in counts.values() if number > 1)
        if columns.items[number]["kind"] == "category" and repeated < len(rows) / 2:
            lines.append(f"column {name!r} has {len(counts):,} values in {len(rows):,} rows; most count as other")
        told = _told(values, targets)
        if told >= _LEAK and repeated > len(rows) / 2 and most < _MOST_FREQUENT * len(rows):
            lines.append(
                f"column {name!r} tells the target of {told:.1%} of the rows by itself: is it known before the target "
                "is? If not, leave it out"
            )
    return lines


def _counts(values: Sequence[Any]) -> dict[Any, int]:
    from collections import Counter

    return Counter(values)


def _told(values: Sequence[Any], targets: Sequence[Any]) -> float:
    """Return the fraction of rows whose target is the most frequent one of their value."""
    of_value: dict[Any, dict[Any, int]] = {}
    for value, target in zip(values, targets, strict=True):
        counts = of_value.setdefault(value, {})
        counts[target] = counts.get(target, 0) + 1
    return sum(max(counts.values()) for counts in of_value.values()) / max(len(values), 1)
