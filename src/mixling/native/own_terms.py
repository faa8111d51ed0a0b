"""Linear support vector machines of very many labels, each with weights of a few terms of its own."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from mixling.arrays import Float32, Int32, Int64
from mixling.native import _margins
from mixling.native.sparse import SparseRows

MOST_TERMS = 48  # of a label: those whose features add up to most in its texts
_MOST_TEXTS = 400  # without a label that share a term with it, the rarest terms first
_TOLERANCE = 0.05
_PASSES = 50
_CELLS = 1 << 22  # features of texts that are added up at a time


def own_terms(features: SparseRows, members: SparseRows, *, most: int = MOST_TERMS) -> tuple[Int64, Int32]:
    """Return for each label the features that its texts have most of, the rarest first.

    Args:
        features: (B, F), not negative.
        members: (K, B), a one for each text of a label.

    Returns:
        Where the features of each label begin (K + 1,), and the features (W,).
    """
    frequent = np.bincount(features.indices, minlength=features.shape[1])
    per_label = np.maximum(np.diff(members.indptr) * max(features.nnz // max(features.shape[0], 1), 1), 1)
    ends = np.cumsum(per_label)
    first = 0
    sizes = np.zeros(members.shape[0] + 1, np.int64)
    found = []
    while first < members.shape[0]:
        spent = int(ends[first - 1]) if first else 0
        last = max(int(np.searchsorted(ends, spent + _CELLS)), first + 1)
        sums = members.part(first, last).times(features)
        owners = sums.owners
        order = np.lexsort((-sums.data, owners))
        rank = np.arange(len(order)) - np.repeat(sums.indptr[:-1], np.diff(sums.indptr))
        order = order[rank < most]
        owners = owners[order]
        columns = sums.indices[order]
        order = np.lexsort((frequent[columns], owners))
        sizes[first + 1 : last + 1] = np.bincount(owners, minlength=last - first)
        found.append(columns[order].astype(np.int32))
        first = last
    return np.cumsum(sizes), np.concatenate([np.zeros(0, np.int32), *found])


def fit_own_terms(
    features: SparseRows,
    members: SparseRows,
    weights: npt.NDArray[np.floating],
    strength: float,
    starts: Int64,
    terms: Int32,
    *,
    most_texts: int = _MOST_TEXTS,
) -> Float32:
    """Return the weights (W,) of the labels' own terms, as a linear support vector machine with squared hinge loss has
    them whose bias is -1.

    Args:
        features, members, starts, terms: as of `own_terms`.
        weights: (B,) of the texts.
        strength: inverse of the regularization.
        most_texts: without a label that its fit has.
    """
    out = np.zeros(len(terms), np.float32)
    columns = features.transposed()
    arrays: list[Any] = [features.indptr, features.indices, features.data, (strength * weights).astype(np.float32)]
    arrays += [columns.indptr, columns.indices, members.indptr, members.indices, starts, terms]
    kinds = [np.int32, np.int32, np.float32, np.float32, *[np.int32] * 6]
    given = [np.ascontiguousarray(one, kind) for one, kind in zip(arrays, kinds, strict=True)]
    function: Any = _margins.fit_own_terms
    function(*given, out, most_texts, _TOLERANCE, _PASSES)
    return out
