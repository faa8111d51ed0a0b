"""What a training loop must not know of a task: its loss and the shape of its targets."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Literal

import numpy as np
import numpy.typing as npt
import torch
from pydantic import Field
from torch import Tensor
from torch.nn import functional as F

from mixling.config import Config
from mixling.models.model import Output
from mixling.text.labels import LabelSet

TaskName = Literal["classification", "multi_label", "tagging", "question_answering"]


NO_TARGET = -100  # where no unit is to be told


class LossConfig(Config):
    """How an answer's error is counted."""

    label_smoothing: float = Field(0.1, ge=0, lt=1)
    class_weights: Literal["none", "balanced"] = Field(
        "none", description="balanced: as if all labels were as frequent"
    )


UNSMOOTHED = LossConfig(label_smoothing=0.0)  # what units are told with, unless more is asked for


class Objective(ABC):
    """What a model is trained for.

    A loss is a pair of sums, of the weighted losses and of the weights: dividing the one by the other over all
    processes gives the mean over the global batch, however it was divided between them.
    """

    output: Output
    metric: str  # the measure of dev by which the best evaluation is chosen
    less_is_better = False

    @abstractmethod
    def loss(self, logits: Tensor, targets: Tensor, weights: Tensor | None) -> tuple[Tensor, Tensor]:
        """Sum of weighted losses and sum of weights; `weights` (B,) are those of the examples."""


class UnitObjective(Objective):
    """Cross-entropy of units, the mean over those of the batch that are to be told."""

    output: Output = "units"

    def __init__(self, loss: LossConfig = UNSMOOTHED) -> None:
        self.label_smoothing = loss.label_smoothing

    def loss(self, logits: Tensor, targets: Tensor, weights: Tensor | None) -> tuple[Tensor, Tensor]:
        shares = (targets != NO_TARGET).to(logits.dtype)
        if weights is not None:
            shares = shares * weights[:, None]
        losses = F.cross_entropy(
            logits.flatten(0, 1),
            targets.flatten(),
            reduction="none",
            ignore_index=NO_TARGET,
            label_smoothing=self.label_smoothing,
        )
        return (losses.view_as(targets) * shares).sum(), shares.sum()


class Task(Objective):
    """A task with labels; its losses take ids, or probabilities (..., C), which are not smoothed."""

    name: TaskName

    def __init__(self, labels: LabelSet, loss: LossConfig, counts: npt.NDArray[np.int64] | None = None) -> None:
        self.labels, self.loss_config = labels, loss
        self.class_weights: Tensor | None = None
        if loss.class_weights == "balanced" and counts is not None:
            self.class_weights = torch.from_numpy(self._balance(counts)).float()

    @abstractmethod
    def stack(self, targets: Sequence[npt.NDArray], width: int) -> Tensor:
        """The targets of a batch as one tensor; `width` is the padded length of its texts."""

    def _balance(self, counts: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
        present = counts > 0
        weights = np.ones(len(counts))
        weights[present] = counts.sum() / (present.sum() * counts[present])
        return weights
