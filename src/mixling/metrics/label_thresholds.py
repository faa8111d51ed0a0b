"""A threshold for each of several labels, chosen on validation examples.

By F1, each label has the threshold of its highest F1, which for rare labels is below one half (Lipton et al., "Optimal
Thresholding of Classifiers to Maximize F1 Measure", ECML PKDD 2014). By precision, it has the lowest threshold from
which on the wanted fraction of its predictions is right.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mixling.metrics.ranking import Ranking

MIN_EXAMPLES = 5  # with a label, to choose its threshold by


@dataclass(frozen=True)
class LabelThreshold:
    """A threshold and its effect on the examples that it was chosen on.

    Attributes:
        threshold: probability from which the label is predicted; None: fewer than `MIN_EXAMPLES` examples have it.
        reached: whether there is a threshold with the wanted precision; otherwise it belongs to the highest one.
    """

    threshold: float | None
    precision: float
    recall: float
    reached: bool = True


def choose_label_threshold(
    truth: npt.NDArray[np.bool_], probabilities: npt.NDArray[np.floating], *, precision: float | None = None
) -> LabelThreshold:
    """Choose the threshold of one label.

    Args:
        truth: (B,) whether an example has the label.
        probabilities: (B,) of the label.
        precision: the wanted one; None: choose by F1.
    """
    if truth.sum() < MIN_EXAMPLES:
        return LabelThreshold(None, 0.0, 0.0, precision is None)
    ranking = Ranking.of(probabilities)
    possible = ranking.possible
    predicted = np.arange(1, len(truth) + 1)
    hits = np.cumsum(truth[ranking.order])
    precisions = hits / predicted
    recalls = hits / truth.sum()
    if precision is None:
        best = int(np.where(possible, 2 * hits / (predicted + truth.sum()), -1).argmax())
        reached = True
    else:
        enough = np.flatnonzero(possible & (precisions >= precision) & (hits > 0))
        reached = bool(len(enough))
        best = int(enough[-1]) if reached else int(np.where(possible, precisions, -1).argmax())
    return LabelThreshold(ranking.threshold_below(best), float(precisions[best]), float(recalls[best]), reached)
