"""Columns beside the texts as other models read them: one-hot, standardized, missing ones apart, parts of dates.

They are read from the cells without the vectors of our own models, so that a comparison measures these vectors, too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from typing import Any

import numpy as np

from mixling.arrays import Float64
from mixling.errors import DataError
from mixling.features.category import normal
from mixling.features.cells import Cells, cells_of
from mixling.features.columns import Columns, describe_columns
from mixling.features.kind import has_no_value
from mixling.native import _core
from mixling.native.sparse import SparseRows
from mixling.text.encoder import Text

_NEW = -1  # a value that no training row has
_EPOCH = date(1970, 1, 1)


@dataclass
class _Part:
    """A number of each row, not-a-number where it is missing; of a category its place among the values, or `_NEW`.

    Attributes:
        values: the number of known values of a category; 0: it is a number.
    """

    values: int
    low: float = 0.0
    high: float = 0.0
    mean: float = 0.0
    deviation: float = 1.0

    def learn(self, numbers: Float64) -> None:
        finite = numbers[np.isfinite(numbers)]
        if len(finite) and not self.values:
            self.low, self.high = finite.min(), finite.max()
            self.mean, self.deviation = finite.mean(), finite.std() or 1.0

    def matrix(self, numbers: Float64) -> SparseRows:
        """Return numbers (B,) as features (B, F): the last is 1 where they are missing."""
        missing = SparseRows.of_dense(np.isnan(numbers)[:, None].astype(np.float32))
        if self.values:
            known = np.flatnonzero(numbers >= 0)
            codes = numbers[known].astype(np.int64)
            return SparseRows.beside([SparseRows.of_pairs(known, codes, (len(numbers), self.values)), missing])
        scaled = (np.clip(np.nan_to_num(numbers, nan=self.mean), self.low, self.high) - self.mean) / self.deviation
        scaled[np.isnan(numbers)] = 0
        return SparseRows.beside([SparseRows.of_dense(scaled[:, None].astype(np.float32)), missing])


@dataclass
class ColumnFeatures:
    """Reads the columns beside texts.

    Args:
        kinds: their names with their kinds, as of `mixling.features.kinds.parse_features`.
    """

    kinds: Mapping[str, str | None]
    parts: list[_Part] = field(default_factory=list)
    _columns: Columns | None = None
    _codes: list[dict[str, int]] = field(default_factory=list)

    def learn(self, texts: Sequence[Text]) -> ColumnFeatures:
        """Learn kinds, known values, means and deviations; return itself."""
        rows = _rows(texts)
        self._columns = describe_columns(dict(self.kinds), rows)
        self._codes = []
        self.parts = []
        for number, item in enumerate(self._columns.items):
            counts = Counter(
                normal(cell) for row in rows if (cell := row[number]) is not None and not has_no_value(cell)
            )
            known = [value for value, _ in counts.most_common()] if item["kind"] == "category" else []
            self._codes.append({value: code for code, value in enumerate(known)})
            widths = {"category": (max(len(known), 1),), "number": (0,), "date": (7, 12, 0)}[item["kind"]]
            self.parts += [_Part(width) for width in widths]
        for part, numbers in zip(self.parts, self.numbers(texts).T, strict=True):
            part.learn(numbers)
        return self

    def numbers(self, texts: Sequence[Text]) -> Float64:
        """Return (B, P): numbers, weekdays, months, days and places of values, not-a-number where one is missing."""
        assert self._columns is not None, "learn was not called"
        found: list[list[float]] = []
        for row in _rows(texts):
            numbers: list[float] = []
            for cell, item, codes in zip(row, self._columns.items, self._codes, strict=True):
                numbers += _numbers(cell, item, codes)
            found.append(numbers)
        return np.array(found, np.float64).reshape(len(texts), len(self.parts))

    def matrix(self, texts: Sequence[Text]) -> SparseRows:
        """Return features (B, F) for a linear model."""
        numbers = self.numbers(texts)
        return SparseRows.beside([part.matrix(numbers[:, place]) for place, part in enumerate(self.parts)])

    def size(self) -> int:
        """Return the bytes of the known values as lines of text, and of means and deviations in float32."""
        values = sum(len(value.encode("utf-8", "replace")) + 1 for codes in self._codes for value in codes)
        return values + 8 * sum(not part.values for part in self.parts)


def _rows(texts: Sequence[Text]) -> list[Cells]:
    rows = list(map(cells_of, texts))
    if None in rows:
        raise DataError(f"text {rows.index(None) + 1} has no columns beside it")
    return [row for row in rows if row is not None]


def _numbers(cell: str | None, item: dict[str, Any], codes: Mapping[str, int]) -> list[float]:
    """Return the numbers of a cell of a column."""
    missing = cell is None or has_no_value(cell)
    if item["kind"] == "category":
        return [float("nan") if missing or cell is None else codes.get(normal(cell), _NEW)]
    if item["kind"] == "number":
        number = None if missing or cell is None else _core.number(cell)
        return [float("nan") if number is None else number]
    read = None if missing or cell is None else _core.date(cell, item["day_first"])
    if not read:
        return [float("nan")] * 3
    day = _EPOCH + timedelta(read[0])
    return [day.weekday(), day.month - 1, read[0]]
