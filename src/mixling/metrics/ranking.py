"""Examples ranked by a probability: thresholds between them, and the area under the ROC curve."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt


class Ranking(NamedTuple):
    """Values (B,) from the highest to the lowest.

    Attributes:
        order: the index of each among the values as they were given.
        possible: whether a threshold can be below it: equal values are all above, or none.
    """

    values: npt.NDArray[np.float64]
    order: npt.NDArray[np.int64]
    possible: npt.NDArray[np.bool_]

    @classmethod
    def of(cls, values: npt.NDArray[np.floating]) -> Ranking:
        """Return the ranking of values (B,)."""
        order = np.argsort(-values, kind="stable")
        ordered = values[order].astype(np.float64)
        return cls(ordered, order, np.append(ordered[1:] < ordered[:-1], True))

    def threshold_below(self, last: int) -> float:
        """Return the middle of the gap after a value, so that no rounding moves an example over the threshold."""
        following = self.values[last + 1] if last + 1 < len(self.values) else 0.0
        return float((self.values[last] + following) / 2)


def roc_area(hits: npt.NDArray[np.floating], misses: npt.NDArray[np.floating]) -> float:
    """Return the fraction of pairs of a hit and a miss in which the hit is higher; ties count half."""
    ordered = np.sort(misses)
    pairs = np.searchsorted(ordered, hits, "left") + np.searchsorted(ordered, hits, "right")
    return float(pairs.sum() / (2 * len(hits) * len(misses)))
