"""Words -> IOB tags: slots, entities, any labelled spans."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from torch import Tensor
from torch.nn import functional as F

from mixling.data.batches import pad_targets
from mixling.models.model import Output
from mixling.tasks.base import Task, TaskName

_PADDING = -100


class TokenLabelling(Task):
    """One tag a word: cross-entropy, the mean over the words of the batch."""

    name: TaskName = "tagging"
    output: Output = "tokens"
    metric = "word_accuracy"

    def loss(self, logits: Tensor, targets: Tensor, weights: Tensor | None) -> tuple[Tensor, Tensor]:
        smoothing = self.loss_config.label_smoothing
        losses = F.cross_entropy(
            logits.flatten(0, 1), targets.flatten(), reduction="none", label_smoothing=smoothing, ignore_index=_PADDING
        ).view_as(targets)
        shares = (targets != _PADDING).to(losses.dtype)
        if weights is not None:
            shares = shares * weights[:, None]
        if self.class_weights is not None:
            shares = shares * self.class_weights.to(targets.device)[targets.clamp_min(0)]
        return (losses * shares).sum(), shares.sum()

    def stack(self, targets: Sequence[npt.NDArray[np.int64]], width: int) -> Tensor:
        return pad_targets([items[:width] for items in targets], width, _PADDING)

    def _balance(self, counts: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
        # The raw ratio would weigh a rare tag a thousand times as much as O; its root is what taggers can bear.
        return np.sqrt(super()._balance(counts))
