"""Categories: one of the values of the training rows, or another one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from mixling.features.kind import ColumnKind, has_no_value

_LEAST = 2  # rows that have a value of its own; others show what a value is like that is new
_MOST = 1000  # values, the most frequent ones


def normal(cell: str) -> str:
    """Return the value of a cell as `native/columns.c` compares it: A to Z as a to z, 3.0 as 3."""
    text = "".join(chr(ord(sign) + 32) if "A" <= sign <= "Z" else sign for sign in cell.strip(_BLANKS))
    whole = text.removesuffix(".0")
    return whole if whole.removeprefix("-").isascii() and whole.removeprefix("-").isdigit() else text


_BLANKS = "".join(map(chr, range(33))) + "\u00a0"


class Category(ColumnKind):
    """One of some values, such as `email`; all others count as one value, other."""

    name = "category"
    what = "a category"

    @classmethod
    def reads(cls, cell: str) -> bool:
        return True

    @classmethod
    def describe(cls, cells: Sequence[str | None]) -> dict[str, Any]:
        counts = Counter(normal(cell) for cell in cells if cell is not None and not has_no_value(cell))
        values = [value for value, number in counts.most_common(_MOST) if number >= _LEAST]
        return {"values": sorted(values, key=lambda value: value.encode("utf-8", "surrogatepass"))}

    @classmethod
    def summary(cls, description: dict[str, Any]) -> str:
        values = description["values"]
        return f"{len(values):,} {'value' if len(values) == 1 else 'values'} and other"
