"""Words -> IOB tags: slots, entities, any labelled spans."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch
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
        if targets.is_floating_point():
            return self._soft_loss(logits, targets, weights)
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

    def stack(self, targets: Sequence[npt.NDArray], width: int) -> Tensor:
        cut = [items[:width] for items in targets]
        if cut[0].ndim == 1:
            return pad_targets(cut, width, _PADDING)
        out = torch.zeros(len(cut), width, len(self.labels))
        for row, items in zip(out, cut, strict=True):
            row[: len(items)] = torch.from_numpy(items)
        return out

    def _soft_loss(self, logits: Tensor, targets: Tensor, weights: Tensor | None) -> tuple[Tensor, Tensor]:
        """Padding, and words that no teacher read, have probabilities of sum 0."""
        targets = targets.to(logits.dtype)
        losses = -(targets * logits.log_softmax(-1)).sum(-1)
        shares = targets.sum(-1)
        if weights is not None:
            shares = shares * weights[:, None]
        if self.class_weights is not None:
            shares = shares * (targets @ self.class_weights.to(logits))
        return (losses * shares).sum(), shares.sum()

    def _balance(self, counts: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
        # The raw ratio would weigh a rare tag a thousand times as much as O; its root is what taggers can bear.
        return np.sqrt(super()._balance(counts))
