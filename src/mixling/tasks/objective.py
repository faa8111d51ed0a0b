"""Training objectives: what a model's outputs are, their loss, and the metric that chooses the best evaluation."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
import numpy.typing as npt
from pydantic import Field

from mixling.config import Config

if TYPE_CHECKING:
    from torch import Tensor

    from mixling.networks.config import Output

NO_TARGET = -100  # the target of tokens without one


class LossConfig(Config):
    """The training loss of labels."""

    label_smoothing: float = Field(
        default=0.1, ge=0, lt=1, description="probability that is spread over all labels; not with head.transitions"
    )
    class_weights: Literal["none", "balanced"] = Field(
        default="none", description="balanced: as if all labels were as frequent"
    )


LossKind = Literal["softmax", "sigmoid", "squares", "sequences", "spans"]


@dataclass(frozen=True)
class LossTerms:
    """A loss as numbers, for steps that are not PyTorch's.

    Attributes:
        kind: softmax: cross-entropy of each output; sigmoid: mean binary cross-entropy of the labels; squares: of the
            difference; sequences: of tags with transitions; spans: starts and ends of answers in texts.
        smoothing: of targets that are ids.
        class_weights: (C,), or None.
    """

    kind: LossKind
    smoothing: float = 0.0
    class_weights: npt.NDArray[np.float32] | None = None


UNSMOOTHED = LossConfig(label_smoothing=0.0)  # the default for subwords


class Objective(ABC):
    """A training objective.

    A loss is a pair of sums, of weighted losses and of weights. Their quotient over all processes is the mean over the
    global batch, however the batch was divided.

    Attributes:
        output: what the model has logits for, see `build_model`.
        metric: the validation metric that chooses the best evaluation.
        less_is_better: whether lower values of the metric are better.
    """

    output: Output
    metric: str
    less_is_better: bool = False

    @abstractmethod
    def loss(self, logits: Tensor, targets: Tensor, weights: Tensor | None) -> tuple[Tensor, Tensor]:
        """Return the sum of weighted losses and the sum of weights; `weights` (B,) of the examples, None: all 1."""

    def loss_terms(self, *, transitions: bool) -> LossTerms | None:
        """Return the same loss as numbers; None: it is no such loss.

        Args:
            transitions: whether the model has transitions of tags.
        """
        return None


class TokenObjective(Objective):
    """Cross-entropy of subwords, averaged over those with a target."""

    output: Output = "subwords"

    def __init__(self, loss: LossConfig = UNSMOOTHED) -> None:
        self.label_smoothing = loss.label_smoothing

    def loss(self, logits: Tensor, targets: Tensor, weights: Tensor | None) -> tuple[Tensor, Tensor]:
        from torch.nn import functional as F

        scale = (targets != NO_TARGET).to(logits.dtype)
        if weights is not None:
            scale = scale * weights[:, None]
        losses = F.cross_entropy(
            logits.flatten(0, 1),
            targets.flatten(),
            reduction="none",
            ignore_index=NO_TARGET,
            label_smoothing=self.label_smoothing,
        )
        return (losses.view_as(targets) * scale).sum(), scale.sum()
