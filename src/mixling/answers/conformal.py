"""Conformal prediction: sets of labels that have the right one with a wanted probability.

On rows that neither trained nor chose anything, each label of a text has a score, and a quantile of the scores of the
right labels is stored. For a new text, the set has the labels with at most this score. If the texts are drawn alike, it
has the right label with at least the wanted probability, whatever the model (Angelopoulos and Bates, "A Gentle
Introduction to Conformal Prediction", 2021, section 1).

LAC: the score is 1 - p (Sadinle, Lei and Wasserman, JASA 2019). Its sets are the smallest on average; where no label is
probable enough, a set is empty. APS: the score is the sum of the probabilities of all labels that are more probable
(Romano, Sesia and Candes, "Classification with Valid and Adaptive Coverage", NeurIPS 2020, without the random number,
and without the label itself, so that the most probable label is in every set). Its coverage varies less between easy
and hard texts.
"""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
import numpy.typing as npt
from pydantic import Field

from mixling.config import Config

_Floats = npt.NDArray[np.floating]

Method = Literal["lac", "aps"]


class ConformalSets(Config):
    """How the set of labels is made of probabilities; an entry of the metadata of model files."""

    method: Method
    coverage: float = Field(gt=0, lt=1, description="the wanted probability that the right label is in the set")
    quantile: float = Field(ge=0, le=1, description="the largest score of a label in the set")

    def members(self, probabilities: _Floats) -> npt.NDArray[np.bool_]:
        """Return which labels are in the sets (B, C) of texts with these probabilities (B, C)."""
        return conformal_scores(probabilities, self.method) <= self.quantile


def conformal_scores(probabilities: _Floats, method: Method) -> npt.NDArray[np.float64]:
    """Return the score of each label (B, C); labels with a smaller one are more typical."""
    values = np.asarray(probabilities, np.float64)
    if method == "lac":
        return 1 - values
    order = np.argsort(-values, axis=1, kind="stable")
    ordered = np.take_along_axis(values, order, 1)
    out = np.empty_like(values)
    np.put_along_axis(out, order, np.cumsum(ordered, 1) - ordered, 1)
    return out.clip(0, 1)


def min_examples(coverage: float) -> int:
    """Return the fewest examples by which sets can have this coverage."""
    return math.ceil(coverage / (1 - coverage) - 1e-9)


def fit_conformal(
    probabilities: _Floats, targets: npt.NDArray[np.integer], *, method: Method, coverage: float
) -> ConformalSets:
    """Return the sets with a wanted coverage.

    Args:
        probabilities: (B, C) of examples that the model is new to; at least `min_examples` of them.
        targets: (B,) their labels; those that the model does not know (>= C) are never in a set.
    """
    known = targets < probabilities.shape[1]
    scores = np.ones(len(targets))
    scores[known] = conformal_scores(probabilities[known], method)[np.arange(known.sum()), targets[known]]
    rank = math.ceil((len(scores) + 1) * coverage - 1e-9)
    assert rank <= len(scores), f"{len(scores)} examples are too few for a coverage of {coverage}"
    return ConformalSets(method=method, coverage=coverage, quantile=float(np.sort(scores)[rank - 1]))
