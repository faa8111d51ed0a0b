"""Indicator matrices: the labels of n texts as a matrix (n, C) of 0 and 1, scikit-learn's multi-label format."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from mixling.data.in_memory import listed
from mixling.data.values import mark_of
from mixling.errors import DataError, shown


@dataclass(frozen=True)
class IndicatorFormat:
    """The format of an indicator matrix: to read others like it, and to return predictions in it.

    Attributes:
        labels: (C,) the labels of the columns: the names of a table's columns, otherwise 0 to C - 1.
        container: the class of a sparse matrix (its CSR form); None: a NumPy array.
    """

    labels: tuple[Any, ...]
    container: type | None = None

    @classmethod
    def of(cls, y: Any, where: str) -> IndicatorFormat | None:
        """Return the format of targets; None if they are not a matrix.

        A matrix is sparse, an array of numbers, a table (pandas, polars), or a list of lists of one length with only 0
        and 1, which as sets of labels would have some of them twice.

        Raises:
            DataError: the matrix has fewer than two columns, or two of one name.
        """
        container = None
        if sparse.issparse(y):
            container = sparse.csr_array if isinstance(y, sparse.sparray) else sparse.csr_matrix
        y = _matrix(y)
        if y is None:
            return None
        if len(y.shape) != 2 or y.shape[1] < 2:
            remedy = "of one label each make a flat array, y.ravel()"
            if hasattr(y, "columns"):
                remedy = f"for one label give the column, df[{y.columns[0]!r}]"
            raise DataError(
                f"got targets of shape {y.shape}; an indicator matrix has two columns or more: {remedy}", path=where
            )
        labels = tuple(y.columns) if hasattr(y, "columns") else tuple(range(y.shape[1]))
        if twice := [name for name, count in Counter(labels).items() if count > 1]:
            raise DataError(f"column {shown(twice[0])} occurs twice in the indicator matrix; rename one", path=where)
        return cls(labels, container)

    def sets(self, y: Any, where: str) -> list[tuple[Any, ...]]:
        """Return the labels whose columns are 1 in each row.

        Raises:
            DataError: it is no matrix with these columns, or has values other than 0 and 1.
        """
        marks = isinstance(y, np.ndarray) and y.dtype == object and y.shape[1:] == (len(self.labels),)
        given = self if marks else type(self).of(y, where)
        if given is not None and hasattr(y, "columns") and set(given.labels) == set(self.labels):
            y = y[list(self.labels)]
        elif given is None or len(given.labels) != len(self.labels) or hasattr(y, "columns"):
            got = f"shape {y.shape}" if hasattr(y, "shape") else type(y).__name__
            got += f" with the columns {', '.join(map(str, y.columns))}" if hasattr(y, "columns") else ""
            names = "" if self.labels == tuple(range(len(self.labels))) else f": {', '.join(map(str, self.labels))}"
            raise DataError(
                f"got targets of {got}; a matrix of 0 and 1 with {len(self.labels)} columns is needed{names}",
                path=where,
            )
        matrix = y if marks else _matrix(y)
        if not sparse.issparse(matrix) and (hasattr(y, "columns") or matrix.dtype.kind not in "biuf"):
            matrix = self._marks(np.asarray(matrix, object), where)
        rows = sparse.csr_array(matrix)
        rows.sum_duplicates()
        wrong = np.flatnonzero((rows.data != 0) & (rows.data != 1))
        if len(wrong):
            row = int(np.searchsorted(rows.indptr, wrong[0], side="right")) - 1
            raise self._wrong(rows.data[wrong[0]], row, int(rows.indices[wrong[0]]), where)
        rows.eliminate_zeros()
        if not rows.shape[0]:
            return []
        return [
            tuple(self.labels[column] for column in row) for row in np.split(rows.indices, rows.indptr[1:-1].tolist())
        ]

    def _marks(self, matrix: npt.NDArray[np.object_], where: str) -> npt.NDArray[np.int64]:
        """Return a matrix of 0, 1, booleans and these as text as integers."""
        out = np.zeros(matrix.shape, np.int64)
        for (row, column), value in np.ndenumerate(matrix):
            mark = mark_of(value.item() if isinstance(value, np.generic) else value)
            if mark is None:
                raise self._wrong(value, row, column, where)
            out[row, column] = mark
        return out

    def _wrong(self, value: object, row: int, column: int, where: str) -> DataError:
        got = f"got {value} in column {self.labels[column]} of an indicator matrix"
        return DataError(f"{got}; 0 and 1 are allowed", path=where, line=row)

    def matrix(self, sets: Sequence[Sequence[Any]]) -> Any:
        """Return sets of labels as an integer matrix (n, C) of this format."""
        out: npt.NDArray[np.int64] = np.zeros((len(sets), len(self.labels)), np.int64)
        at = {label: column for column, label in enumerate(self.labels)}
        for row, labels in zip(out, sets, strict=True):
            row[[at[label] for label in labels]] = 1
        return out if self.container is None else self.container(out)


def _matrix(y: Any) -> Any:
    """Return targets that are a matrix as such; None for others."""
    if len(getattr(y, "shape", ())) == 1:  # an array or a column, whose items may be lists
        y = listed(y, "targets")
    if sparse.issparse(y) or (hasattr(y, "columns") and hasattr(y, "to_numpy")):
        return y
    if isinstance(y, np.ndarray) and y.ndim == 2:
        known = y.dtype.kind in "biuf" or (y.size and all(mark_of(value) is not None for value in y.flat))
        return y if known else None
    if not isinstance(y, list | tuple) or not y or not all(isinstance(row, list | tuple | np.ndarray) for row in y):
        return None
    width = len(y[0])
    if width < 2 or any(len(row) != width for row in y):
        return None
    rows = np.array([list(map(_plain, row)) for row in y], object)
    return rows if rows.ndim == 2 and all(mark_of(value) is not None for value in rows.flat) else None


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value
