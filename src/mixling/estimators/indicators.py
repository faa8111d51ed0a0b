"""Indicator matrices: the labels of n texts as a matrix (n, C) of 0 and 1, scikit-learn's multi-label format."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from mixling.errors import DataError


@dataclass(frozen=True)
class IndicatorFormat:
    """The format of an indicator matrix: to read others like it, and to return predictions in it.

    Attributes:
        columns: C; column j is the label j.
        container: the class of a sparse matrix (its CSR form); None: a NumPy array.
    """

    columns: int
    container: type | None

    @classmethod
    def of(cls, y: Any, where: str) -> IndicatorFormat | None:
        """Return the format of targets; None if they are not a matrix of numbers.

        Raises:
            DataError: the matrix has fewer than two columns.
        """
        if sparse.issparse(y):
            container = sparse.csr_array if isinstance(y, sparse.sparray) else sparse.csr_matrix
        elif isinstance(y, np.ndarray) and y.ndim == 2 and y.dtype.kind in "biuf":
            container = None
        else:
            return None
        if y.ndim != 2 or y.shape[1] < 2:
            remedy = "of one label each make a flat array, y.ravel()"
            raise DataError(
                f"got targets of shape {y.shape}; an indicator matrix has two columns or more: {remedy}", path=where
            )
        return cls(y.shape[1], container)

    def sets(self, y: Any, where: str) -> list[tuple[int, ...]]:
        """Return the columns that are 1 in each row.

        Raises:
            DataError: it is no matrix of `columns` columns, or has values other than 0 and 1.
        """
        if type(self).of(y, where) is None or y.shape[1] != self.columns:
            got = f"shape {y.shape}" if hasattr(y, "shape") else type(y).__name__
            raise DataError(
                f"got targets of {got}; a matrix of 0 and 1 with {self.columns} columns is needed", path=where
            )
        rows = sparse.csr_array(y)
        rows.sum_duplicates()
        wrong = np.flatnonzero((rows.data != 0) & (rows.data != 1))
        if len(wrong):
            row = int(np.searchsorted(rows.indptr, wrong[0], side="right")) - 1
            got = f"got {rows.data[wrong[0]]} in column {rows.indices[wrong[0]]} of an indicator matrix"
            raise DataError(f"{got}; 0 and 1 are allowed", path=where, line=row)
        rows.eliminate_zeros()
        return [tuple(row.tolist()) for row in np.split(rows.indices, rows.indptr[1:-1])] if rows.shape[0] else []

    def matrix(self, sets: Sequence[Sequence[int]]) -> Any:
        """Return sets of columns as an integer matrix (n, C) of this format."""
        out: npt.NDArray[np.int64] = np.zeros((len(sets), self.columns), np.int64)
        for row, columns in zip(out, sets, strict=True):
            row[list(columns)] = 1
        return out if self.container is None else self.container(out)
