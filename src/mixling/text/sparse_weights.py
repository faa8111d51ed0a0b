"""The integer weights of an n-gram branch with many scores, few for each term: a matrix in compressed rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mixling.arrays import Int8, Int32, Int64

_GATHERED = 1 << 22  # weights that are added at a time


@dataclass(frozen=True, slots=True, eq=False)
class SparseWeights:
    """A matrix (T, K) with few weights that are not 0.

    Attributes:
        starts: (T + 1,) of the weights of each term.
        columns: (W,) the score that each weight belongs to.
        values: (W,).
        outputs: K.
    """

    starts: Int64
    columns: Int32
    values: Int8
    outputs: int

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.starts) - 1, self.outputs

    @property
    def size(self) -> int:
        return self.shape[0] * self.outputs

    def add(self, sums: Int32, owners: npt.NDArray[np.integer], terms: npt.NDArray[np.integer]) -> None:
        """Add the weights of `terms` (P,) to the rows `owners` (P,) of `sums` (B, K) or wider."""
        sizes = np.diff(self.starts)[terms]
        ends = np.cumsum(sizes)
        first = 0
        while first < len(terms):
            spent = int(ends[first - 1]) if first else 0
            last = max(int(np.searchsorted(ends, spent + _GATHERED)), first + 1)
            found = sizes[first:last]
            within = np.arange(int(found.sum())) - np.repeat(np.cumsum(found) - found, found)
            at = np.repeat(self.starts[terms[first:last]], found) + within
            cells = np.repeat(owners[first:last].astype(np.int64) * sums.shape[1], found) + self.columns[at]
            np.add.at(sums.reshape(-1), cells, self.values[at].astype(np.int32))
            first = last
