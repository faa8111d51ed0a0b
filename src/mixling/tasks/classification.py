"""Texts or pairs of texts -> one label, or a set of labels."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional as F

from mixling.models.model import Output
from mixling.tasks.base import Task, TaskName


class Classification(Task):
    """One label a text: cross-entropy."""

    name: TaskName = "classification"
    output: Output = "text"
    metric = "accuracy"

    def loss(self, logits: Tensor, targets: Tensor, weights: Tensor | None) -> tuple[Tensor, Tensor]:
        soft = targets.is_floating_point()
        smoothing = 0.0 if soft else self.loss_config.label_smoothing
        targets = targets.to(logits.dtype) if soft else targets
        losses = F.cross_entropy(logits, targets, reduction="none", label_smoothing=smoothing)
        shares = torch.ones_like(losses) if weights is None else weights
        if self.class_weights is not None:
            of_class = self.class_weights.to(logits)
            shares = shares * (targets @ of_class if soft else of_class[targets])
        return (losses * shares).sum(), shares.sum()

    def stack(self, targets: Sequence[npt.NDArray], width: int) -> Tensor:
        return torch.from_numpy(np.stack(targets))


class MultiLabel(Task):
    """Any number of labels a text: binary cross-entropy, the mean over labels."""

    name: TaskName = "multi_label"
    output: Output = "text"
    metric = "micro_f1"

    def loss(self, logits: Tensor, targets: Tensor, weights: Tensor | None) -> tuple[Tensor, Tensor]:
        smoothing = self.loss_config.label_smoothing
        soft = targets.to(logits.dtype)
        if not targets.is_floating_point():
            soft = soft * (1 - smoothing) + smoothing / 2
        positive = None if self.class_weights is None else self.class_weights.to(targets.device)
        losses = F.binary_cross_entropy_with_logits(logits, soft, reduction="none", pos_weight=positive).mean(1)
        shares = torch.ones_like(losses) if weights is None else weights
        return (losses * shares).sum(), shares.sum()

    def stack(self, targets: Sequence[npt.NDArray], width: int) -> Tensor:
        return torch.from_numpy(np.stack(targets))
