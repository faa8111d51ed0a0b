"""The Cholesky factor of symmetric positive definite matrices."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
from threadpoolctl import threadpool_limits

from mixling.arrays import Float32
from mixling.threads import num_threads

# Rows that are factored at a time, and columns that are one thread's work.
_BLOCK = 128
_TILE = 512


class Cholesky:
    """U (N, N), upper triangular, with U^T U = `squares`.

    By blocks: each is the work of one thread, so that the result does not depend on their number.

    Args:
        squares: (N, N), is overwritten; its upper part is read.
    """

    def __init__(self, squares: Float32) -> None:
        size = len(squares)
        self._upper = squares
        self._blocks = [(first, min(first + _BLOCK, size)) for first in range(0, size, _BLOCK)]
        self._inverses: list[Float32] = []
        with threadpool_limits(1), ThreadPoolExecutor(num_threads()) as pool:
            for first, last in self._blocks:

                def reduce(begin: int, first: int = first, last: int = last) -> None:
                    tile = slice(begin, begin + _TILE)
                    squares[first:last, tile] -= squares[:first, first:last].T @ squares[:first, tile]

                list(pool.map(reduce, range(first, size, _TILE)))
                lower = np.linalg.cholesky(squares[first:last, first:last].T)
                self._inverses.append(np.linalg.inv(lower))
                squares[first:last, last:] = self._inverses[-1] @ squares[first:last, last:]
                squares[first:last, first:last] = lower.T

    def times(self, values: Float32) -> Float32:
        """Return U @ values (N, K); the caller limits BLAS to one thread, as that takes longer than the product."""
        out = np.empty_like(values)
        for first, last in self._blocks:
            out[first:last] = self._upper[first:last, first:] @ values[first:]
        return out

    def transposed_times(self, values: Float32) -> Float32:
        """Return U^T @ values (N, K); the caller limits BLAS, as for `times`."""
        out = np.zeros_like(values)
        for first, last in self._blocks:
            out[first:] += self._upper[first:last, first:].T @ values[first:last]
        return out

    def divide(self, right: Float32) -> Float32:
        """Return the solution x (N, K) of U x = right, which is overwritten."""
        with threadpool_limits(1):
            for (first, last), inverse in zip(reversed(self._blocks), reversed(self._inverses), strict=True):
                right[first:last] = inverse.T @ (right[first:last] - self._upper[first:last, last:] @ right[last:])
        return right

    def solve(self, right: Float32) -> Float32:
        """Return the solution x (N, K) of U^T U x = right, which is overwritten."""
        with threadpool_limits(1):
            for (first, last), inverse in zip(self._blocks, self._inverses, strict=True):
                right[first:last] = inverse @ right[first:last]
                right[last:] -= self._upper[first:last, last:].T @ right[first:last]
        return self.divide(right)
