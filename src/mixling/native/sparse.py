"""Sparse matrices by rows, and their products by the C core.

The names of the arrays are scipy's, so that functions which only read them take its matrices, too. Each number of a
product is summed in one order, whatever the number of threads.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from mixling.arrays import Float32, Int32
from mixling.native import _counts
from mixling.native.cholesky import Cholesky
from mixling.threads import num_threads

_PART = 1 << 22  # multiplications that are worth a thread
_DIAGONAL = 1e-5  # added to the products of rows with themselves, as a fraction: equal rows have equal products


@dataclass(slots=True, eq=False)
class SparseRows:
    """A sparse matrix; what makes a smaller one of it may take its arrays.

    Attributes:
        data: (N,) values of the entries, row by row.
        indices: (N,) their columns.
        indptr: (R + 1,) where the entries of each row begin.
        shape: rows and columns.
    """

    data: Float32
    indices: Int32
    indptr: Int32
    shape: tuple[int, int]
    _factor: Cholesky | None = field(default=None, init=False, repr=False)

    @classmethod
    def of_pairs(
        cls, rows: npt.NDArray[np.integer], columns: npt.NDArray[np.integer], shape: tuple[int, int]
    ) -> SparseRows:
        """Return the matrix that has how often each row is paired with each column."""
        pairs, counts = np.unique(rows.astype(np.int64) * shape[1] + columns, return_counts=True)
        return cls.sorted(pairs, counts.astype(np.float32), shape)

    @classmethod
    def of_dense(cls, matrix: npt.NDArray[np.generic]) -> SparseRows:
        """Return a matrix (R, C) without its zeros."""
        flat = matrix.ravel()
        places = np.flatnonzero(flat)
        return cls.sorted(places, flat[places].astype(np.float32), (matrix.shape[0], matrix.shape[1]))

    @classmethod
    def sorted(cls, places: npt.NDArray[np.integer], data: Float32, shape: tuple[int, int]) -> SparseRows:
        """Return the matrix with values at places, counted row by row, in their order."""
        rows, columns = np.divmod(places, max(shape[1], 1))
        starts = np.searchsorted(rows, np.arange(shape[0] + 1)).astype(np.int32)
        return cls(data, columns.astype(np.int32), starts, shape)

    @classmethod
    def beside(cls, parts: Sequence[SparseRows]) -> SparseRows:
        """Return matrices with the same rows beside each other."""
        sizes = np.stack([np.diff(part.indptr) for part in parts])
        starts = np.append(0, np.cumsum(sizes.sum(0))).astype(np.int32)
        indices = np.empty(starts[-1], np.int32)
        data = np.empty(starts[-1], np.float32)
        before = 0
        places = starts[:-1].copy()
        for part, size in zip(parts, sizes, strict=True):
            mine = np.repeat(places - part.indptr[:-1], size) + np.arange(part.nnz)
            indices[mine] = part.indices + np.int32(before)
            data[mine] = part.data
            places += size
            before += part.shape[1]
        return cls(data, indices, starts, (len(starts) - 1, before))

    @property
    def nnz(self) -> int:
        """The number of entries."""
        return int(self.indptr[-1] - self.indptr[0])

    @property
    def owners(self) -> npt.NDArray[np.int64]:
        """The row of each entry."""
        return np.repeat(np.arange(self.shape[0]), np.diff(self.indptr))

    def part(self, first: int, last: int) -> SparseRows:
        """Return the rows from the first up to another, whose entries are not copied."""
        starts = self.indptr[first : last + 1]
        entries = slice(int(starts[0]), int(starts[-1]))
        return SparseRows(
            self.data[entries], self.indices[entries], starts - starts[0], (len(starts) - 1, self.shape[1])
        )

    def rows(self, chosen: npt.NDArray[np.integer]) -> SparseRows:
        """Return some of the rows, in this order."""
        sizes = np.diff(self.indptr)[chosen]
        starts = np.append(0, np.cumsum(sizes))
        entries = np.repeat(self.indptr[chosen] - starts[:-1], sizes) + np.arange(starts[-1])
        return SparseRows(
            self.data[entries], self.indices[entries], starts.astype(np.int32), (len(chosen), self.shape[1])
        )

    def columns(self, kept: npt.NDArray[np.bool_]) -> SparseRows:
        """Return the columns that a mask (C,) keeps."""
        entries = kept[self.indices]
        starts = np.append(0, np.cumsum(entries))[self.indptr].astype(np.int32)
        columns = (np.cumsum(kept) - 1).astype(np.int32)[self.indices[entries]]
        return SparseRows(self.data[entries], columns, starts, (self.shape[0], int(np.count_nonzero(kept))))

    def transposed(self) -> SparseRows:
        """Return the matrix with rows for columns."""
        out = SparseRows(
            np.empty(self.nnz, np.float32),
            np.empty(self.nnz, np.int32),
            np.empty(self.shape[1] + 1, np.int32),
            (self.shape[1], self.shape[0]),
        )
        _counts.transpose(self.indptr, self.indices, self.data, out.indptr, out.indices, out.data)
        return out

    def times(self, other: SparseRows) -> SparseRows:
        """Return the product with another sparse matrix."""
        left = (self.indptr, self.indices, self.data)
        right = (other.indptr, other.indices, other.data)
        ends, columns, data = _counts.multiply_sparse(*left, *right, other.shape[1])
        starts = np.append(np.int32(0), np.frombuffer(ends, np.int32))
        shape = (self.shape[0], other.shape[1])
        return SparseRows(np.frombuffer(data, np.float32), np.frombuffer(columns, np.int32), starts, shape)

    def upper_product(self, other: SparseRows) -> Float32:
        """Return the product (R, R) with a matrix (C, R) whose columns are in order, from its diagonal on."""
        out = np.zeros((self.shape[0], self.shape[0]), np.float32)
        left = (self.indptr, self.indices, self.data)
        _counts.multiply_upper(out, *left, other.indptr, other.indices, other.data)
        return out

    def factor(self) -> Cholesky:
        """Return the factor U (R, R) of the products of rows with each other: the rows of U^T have the same products.

        It is found once; the entries must not change afterwards.
        """
        if self._factor is None:
            products = self.upper_product(self.transposed())
            diagonal = np.diag_indices(self.shape[0])
            products[diagonal] = products[diagonal] * np.float32(1 + _DIAGONAL) + np.float32(_DIAGONAL)
            self._factor = Cholesky(products)
        return self._factor

    def __matmul__(self, dense: Float32) -> Float32:
        """Return the product with a matrix (C, K) or a vector (C,) of float32."""
        width = dense.shape[1] if dense.ndim == 2 else 1
        out = np.zeros((self.shape[0], *dense.shape[1:]), np.float32)
        if not width:
            return out
        dense = np.ascontiguousarray(dense, np.float32)
        threads = min(num_threads(), 1 + self.nnz * width // _PART)
        wanted = np.arange(1, threads) * (self.nnz / threads)
        edges = [0, *np.searchsorted(self.indptr, wanted).tolist(), self.shape[0]]

        def multiply(number: int) -> None:
            first, last = edges[number : number + 2]
            starts = self.indptr[first : last + 1]
            _counts.multiply_dense(out[first:last], starts, self.indices, self.data, dense, width)

        if threads == 1:
            multiply(0)
        else:
            with ThreadPoolExecutor(threads) as pool:
                list(pool.map(multiply, range(threads)))
        return out
