"""A kind of column, which a file of this package defines."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from mixling.native import _core

_KNOTS = 12  # of a number
_LARGEST = 1e30  # larger numbers count as infinite, so that their differences and squares are numbers
_TAIL = 0.005  # of the values on each side, which count as the nearest of the others


class ColumnKind(ABC):
    """How a column is recognized and described for the C core.

    Attributes:
        name: the name in `--features COLUMN:KIND` and in model files.
        what: what its values are, for messages.
    """

    name: ClassVar[str]
    what: ClassVar[str]

    @classmethod
    @abstractmethod
    def reads(cls, cell: str) -> bool:
        """Return whether a cell, which is not missing, is of this kind."""

    @classmethod
    def recognize(cls, cells: Sequence[str]) -> bool:
        """Return whether a column of cells, without missing ones, is guessed to be of this kind."""
        return all(map(cls.reads, cells))

    @classmethod
    @abstractmethod
    def describe(cls, cells: Sequence[str | None]) -> dict[str, Any]:
        """Return the description of a column by its cells, each of this kind or missing."""

    @classmethod
    @abstractmethod
    def summary(cls, description: dict[str, Any]) -> str:
        """Return the description in a few words."""


def scale_of(values: npt.NDArray[np.float64]) -> dict[str, Any]:
    """Return knots, mean and deviation of numbers (N,), infinite and missing ones (NaN) among them.

    Knots are the numbers themselves where few are different, else quantiles.
    """
    finite = values[np.abs(values) <= _LARGEST]
    if not len(finite):
        return {"knots": [0.0], "mean": 0.0, "deviation": 1.0}
    knots = np.unique(finite)
    if len(knots) > _KNOTS:
        knots = np.unique(np.quantile(finite, np.linspace(_TAIL, 1 - _TAIL, _KNOTS)))
        if len(knots) < 3:  # most are equal
            knots = np.unique(np.append(knots, [finite.min(), finite.max()]))
    held = np.clip(values[~np.isnan(values)], knots[0], knots[-1])
    return {"knots": knots.tolist(), "mean": float(held.mean()), "deviation": float(held.std()) or 1.0}


def has_no_value(cell: str | None) -> bool:
    """Return whether a cell has no value: empty, or a name for that, such as `NA`."""
    return cell is None or _core.date(cell, False) == ()
