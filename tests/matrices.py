"""Sparse matrices of scipy, and the same as the product has them."""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_array

from mixling.native.sparse import SparseRows


def ours(matrix: csr_array) -> SparseRows:
    return SparseRows(matrix.data, matrix.indices.astype(np.int32), matrix.indptr.astype(np.int32), matrix.shape)


def dense(matrix: SparseRows) -> np.ndarray:
    return csr_array((matrix.data, matrix.indices, matrix.indptr), matrix.shape).toarray()
