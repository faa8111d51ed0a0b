"""Which label is the answer, where that is not the most probable one: what a metric or the costs of errors ask for.

Probabilities stay as they are, and so stay calibrated. For a metric such as macro F1 an offset is added to the
log-probability of each label: -tau log(prior), with one tau for all labels (Menon et al., "Long-tail learning via
logit adjustment", ICLR 2021, section 4.1). For costs the answer has the least expected cost (Elkan, "The Foundations of
Cost-Sensitive Learning", IJCAI 2001).
"""

from __future__ import annotations

import math
from typing import Annotated

import numpy as np
import numpy.typing as npt
from pydantic import Field, model_validator

from mixling.answers.predictions import softmax
from mixling.config import Config

_Number = Annotated[float, Field(allow_inf_nan=False)]


class DecisionRule(Config):
    """How one of C labels becomes the answer; an entry of the metadata of model files. One of the two is given."""

    offsets: tuple[_Number, ...] = Field(
        default=(), description="(C,) added to the log-probabilities; the largest sum answers"
    )
    costs: tuple[tuple[_Number, ...], ...] = Field(
        default=(),
        description="(C, C) cost of the answer (column) for a text of a label (row); the least expected one answers",
    )

    @model_validator(mode="after")
    def _one_is_given(self) -> DecisionRule:
        if bool(self.offsets) == bool(self.costs):
            raise ValueError("give either offsets or costs")
        if any(len(row) != len(self.costs) for row in self.costs):
            raise ValueError("the costs are no square matrix")
        return self

    @property
    def num_labels(self) -> int:
        """C."""
        return len(self.offsets) or len(self.costs)

    def with_unknown(self, number: int) -> DecisionRule:
        """Return the rule for `number` labels more, which are never the answer."""
        if self.offsets:
            return DecisionRule(offsets=(*self.offsets, *[0.0] * number))
        wide = np.pad(np.array(self.costs), (0, number))
        wide[:, self.num_labels :] = wide.max() + 1
        return DecisionRule(costs=tuple(map(tuple, wide.tolist())))

    def answers(self, logits: npt.NDArray[np.floating]) -> npt.NDArray[np.int64]:
        """Return the ids (...) of the answers, given logits or log-probabilities (..., C)."""
        values = np.asarray(logits, np.float64)
        if not self.offsets:
            values = -(softmax(values) @ np.array(self.costs))
            return np.asarray(values.argmax(-1), np.int64)
        return np.asarray((values + np.array(self.offsets)).argmax(-1), np.int64)

    def answer(self, logits: list[float]) -> int:
        """Return the id of the answer, as `answers`; for one text, plain Python is faster than NumPy."""
        if self.offsets:
            sums = [value + offset for value, offset in zip(logits, self.offsets, strict=True)]
            return sums.index(max(sums))
        top = max(logits)
        weights = [math.exp(value - top) for value in logits]
        expected = [sum(w * row[i] for w, row in zip(weights, self.costs, strict=True)) for i in range(len(weights))]
        return expected.index(min(expected))


def answers_of(probabilities: npt.NDArray[np.floating], rule: DecisionRule | None) -> npt.NDArray[np.int64]:
    """Return the ids (...) of the answers, given probabilities (..., C); without a rule the most probable labels."""
    if rule is None:
        return np.asarray(probabilities.argmax(-1), np.int64)
    with np.errstate(divide="ignore"):  # log(0) is -inf: never the answer by its offset
        return rule.answers(np.log(probabilities))


def offsets_of(priors: npt.NDArray[np.floating], tau: float) -> tuple[float, ...]:
    """Return the offsets (C,) -tau log(prior), for priors (C,) above 0."""
    return tuple((-tau * np.log(priors)).round(6).tolist())
