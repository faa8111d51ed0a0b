"""Which label is the answer, where that is not the most probable one: what a metric or the costs of errors ask for.

Probabilities stay as they are, and so stay calibrated. For a metric such as macro F1 an offset is added to the
log-probability of each label: -tau log(prior), with one tau for all labels (Menon et al., "Long-tail learning via
logit adjustment", ICLR 2021, section 4.1). For costs the answer has the least expected cost (Elkan, "The Foundations of
Cost-Sensitive Learning", IJCAI 2001). Labels with levels are answered from the top down (`mixling.answers.levels`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
from pydantic import Field, model_validator

from mixling.answers.levels import MAX_SEPARATOR, LabelTree
from mixling.answers.predictions import softmax
from mixling.config import Config

_Number = Annotated[float, Field(allow_inf_nan=False)]


class DecisionRule(Config):
    """How one of C labels becomes the answer; an entry of the metadata of model files. One of the three is given."""

    offsets: tuple[_Number, ...] = Field(
        default=(), description="(C,) added to the log-probabilities; the largest sum answers"
    )
    costs: tuple[tuple[_Number, ...], ...] = Field(
        default=(),
        description="(C, C) cost of the answer (column) for a text of a label (row); the least expected one answers",
    )
    levels: str = Field(
        default="",
        max_length=MAX_SEPARATOR,
        description="what separates the levels of a label, such as ' > ' of 'card > lost'; the most probable part of "
        "each level answers, from the top down",
    )
    names: tuple[str, ...] = Field(default=(), exclude=True, description="the labels (C,), of a rule with levels")

    @model_validator(mode="after")
    def _one_is_given(self) -> DecisionRule:
        if sum(map(bool, (self.offsets, self.costs, self.levels))) != 1:
            raise ValueError("give offsets, costs or levels, one of them")
        if any(len(row) != len(self.costs) for row in self.costs):
            raise ValueError("the costs are no square matrix")
        return self

    @property
    def num_labels(self) -> int:
        """C."""
        return len(self.offsets) or len(self.costs) or len(self.names)

    @cached_property
    def tree(self) -> LabelTree:
        """The labels by level."""
        return LabelTree(self.names, self.levels)

    def to_dict(self) -> dict[str, Any]:
        """Return JSON values; `levels` only where there are some, as not all versions know them."""
        return {key: value for key, value in super().to_dict().items() if key != "levels" or value}

    def of(self, names: Sequence[str]) -> DecisionRule:
        """Return the rule for labels that begin with its own; new ones are never the answer."""
        if self.levels:
            return DecisionRule(levels=self.levels, names=tuple(names))
        number = len(names)
        if self.offsets:
            return DecisionRule(offsets=(*self.offsets, *[0.0] * number)[:number])
        wide = np.pad(np.array(self.costs), (0, number))
        wide[:, self.num_labels :] = wide.max() + 1
        return DecisionRule(costs=tuple(map(tuple, wide[:number, :number].tolist())))

    def answers(self, logits: npt.NDArray[np.floating]) -> npt.NDArray[np.int64]:
        """Return the ids (...) of the answers, given logits or log-probabilities (..., C)."""
        values = np.asarray(logits, np.float64)
        if self.levels:
            return self.tree.descend(softmax(values))[0][..., -1]
        if not self.offsets:
            values = -(softmax(values) @ np.array(self.costs))
            return np.asarray(values.argmax(-1), np.int64)
        return np.asarray((values + np.array(self.offsets)).argmax(-1), np.int64)

    def answer(self, logits: list[float]) -> int:
        """Return the id of the answer, as `answers`; for one text, plain Python is faster than NumPy."""
        if self.levels:
            return int(self.answers(np.array(logits)))
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


def answers_by_level(
    probabilities: npt.NDArray[np.floating], rule: DecisionRule | None
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """Return the answers (B, K) of each level from the top, and their probabilities; without levels of the only one."""
    if rule is not None and rule.levels:
        return rule.tree.descend(probabilities)
    answers = answers_of(probabilities, rule)[:, None]
    return answers, np.take_along_axis(np.asarray(probabilities, np.float64), answers, 1)


def targets_by_level(targets: npt.NDArray[np.int64], rule: DecisionRule | None) -> npt.NDArray[np.int64]:
    """Return what the answers (B, K) of `answers_by_level` should be, given labels (B,)."""
    return rule.tree.nodes[:, targets].T if rule is not None and rule.levels else targets[:, None]


def offsets_of(priors: npt.NDArray[np.floating], tau: float) -> tuple[float, ...]:
    """Return the offsets (C,) -tau log(prior), for priors (C,) above 0."""
    return tuple((-tau * np.log(priors)).round(6).tolist())
