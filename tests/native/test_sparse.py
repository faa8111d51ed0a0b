"""Sparse matrices, against scipy's."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_array, hstack, random_array

from mixling.native import _counts, sparse
from mixling.native.sparse import SparseRows
from mixling.threads import limited_threads

from ..matrices import dense, ours


def drawn(rows: int, columns: int, seed: int = 0) -> csr_array:
    return random_array((rows, columns), density=0.2, format="csr", dtype=np.float32, rng=np.random.default_rng(seed))


@pytest.mark.parametrize("width", [None, 1, 7, 40])
def test_products_with_dense_matrices(width: int | None) -> None:
    matrix = drawn(30, 20)
    other = np.random.default_rng(1).normal(size=(20,) if width is None else (20, width)).astype(np.float32)
    np.testing.assert_allclose(ours(matrix) @ other, matrix @ other, rtol=1e-5, atol=1e-6)


def test_products_are_the_same_bytes_for_any_number_of_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    matrix = ours(drawn(300, 200))
    other = np.random.default_rng(1).normal(size=(200, 9)).astype(np.float32)
    alone = matrix @ other
    monkeypatch.setattr(sparse, "_PART", 1)
    for number in (2, 3, 5):
        with limited_threads(number):
            assert (matrix @ other).tobytes() == alone.tobytes()


def test_products_of_sparse_matrices_and_of_parts() -> None:
    left = drawn(30, 20)
    right = drawn(20, 50, seed=1)
    np.testing.assert_allclose(dense(ours(left).times(ours(right))), (left @ right).toarray(), rtol=1e-5)
    part = ours(left).part(7, 19)
    np.testing.assert_allclose(dense(part.times(ours(right))), (left[7:19] @ right).toarray(), rtol=1e-5)
    assert dense(ours(left).part(4, 4)).shape == (0, 20)


def test_rows_columns_and_their_exchange() -> None:
    matrix = drawn(30, 20)
    chosen = np.array([4, 4, 29, 0])
    kept = np.arange(20) % 3 > 0
    np.testing.assert_array_equal(dense(ours(matrix).rows(chosen)), matrix[chosen].toarray())
    np.testing.assert_array_equal(dense(ours(matrix).columns(kept)), matrix[:, kept].toarray())
    np.testing.assert_array_equal(dense(ours(matrix).part(3, 11).transposed()), matrix[3:11].T.toarray())
    np.testing.assert_array_equal(ours(matrix).owners, matrix.tocoo().row)
    others = [matrix, drawn(30, 3, seed=1), csr_array((30, 2), dtype=np.float32), drawn(30, 5, seed=2)]
    np.testing.assert_array_equal(dense(SparseRows.beside(list(map(ours, others)))), hstack(others).toarray())


def test_pairs_are_counted_and_dense_matrices_read() -> None:
    rng = np.random.default_rng(0)
    rows = rng.integers(0, 9, 200)
    columns = rng.integers(0, 7, 200)
    expected = csr_array((np.ones(200), (rows, columns)), (9, 7)).toarray()
    np.testing.assert_array_equal(dense(SparseRows.of_pairs(rows, columns, (9, 7))), expected)
    np.testing.assert_array_equal(dense(SparseRows.of_dense(expected)), expected)
    empty = SparseRows.of_pairs(rows[:0], columns[:0], (3, 0))
    assert empty.nnz == 0
    assert empty.shape == (3, 0)


@pytest.mark.parametrize(
    ("starts", "columns"),
    [([0, 2, 1], [0, 1]), ([0, 1, 3], [0, 1]), ([-1, 1, 2], [0, 1]), ([0, 1, 2], [0, 5]), ([0, 1, 2], [0, -1])],
)
def test_arrays_that_are_no_matrix_are_refused(starts: list[int], columns: list[int]) -> None:
    arrays = (np.array(starts, np.int32), np.array(columns, np.int32), np.ones(len(columns), np.float32))
    with pytest.raises(ValueError, match="no sparse matrices"):
        _counts.multiply_dense(np.zeros((2, 3), np.float32), *arrays, np.ones((5, 3), np.float32), 3)
    sound = (np.array([0, 1, 1, 1, 1, 1], np.int32), np.zeros(1, np.int32), np.ones(1, np.float32))
    with pytest.raises(ValueError, match="no sparse matrices"):
        _counts.multiply_sparse(*arrays, *sound, 4)
    with pytest.raises(ValueError, match="no sparse matrices"):
        _counts.multiply_sparse(*sound, *sound, 2**31 - 2)
    out = (np.zeros(6, np.int32), np.zeros(len(columns), np.int32), np.zeros(len(columns), np.float32))
    with pytest.raises(ValueError, match="no sparse matrices"):
        _counts.transpose(*arrays, *out)
