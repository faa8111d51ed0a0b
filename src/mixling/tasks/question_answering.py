"""A question and a context -> the stretch of the context that answers it, or that there is none."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch
from jaxtyping import Float, Int
from torch import Tensor

from mixling.errors import ConfigError
from mixling.models.model import Output
from mixling.tasks.base import LossConfig, Task, TaskName
from mixling.text.labels import LabelSet


class QuestionAnswering(Task):
    """Where an answer starts and where it ends: the mean of two cross-entropies over the tokens of a window.

    The softmax is over the separator and the context after it; the separator stands for "no answer here", as BERT's
    [CLS] does on SQuAD 2.0. Targets are those of `Passage.targets`. Label smoothing is over the same tokens.

    Raises:
        ConfigError: classes are to be weighted; there are none.
    """

    name: TaskName = "question_answering"
    output: Output = "tokens"
    metric = "f1"

    def __init__(self, labels: LabelSet, loss: LossConfig, counts: npt.NDArray[np.int64] | None = None) -> None:
        super().__init__(labels, loss)
        if loss.class_weights != "none":
            raise ConfigError(f"train.loss.class_weights: got {loss.class_weights!r}; questions have no classes: none")

    def loss(
        self, logits: Float[Tensor, "B N 2"], targets: Int[Tensor, "B 4"], weights: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        separator, length, ends = targets[:, :1], targets[:, 1:2], targets[:, 2:]
        places = torch.arange(logits.shape[1], device=logits.device)
        allowed = ((places >= separator) & (places < length))[..., None]  # (B, N, 1)
        logs = logits.masked_fill(~allowed, -torch.inf).log_softmax(1)
        losses = -logs.gather(1, ends[:, None])[:, 0]  # (B, 2)
        smoothing = self.loss_config.label_smoothing
        if smoothing:
            others = -logs.masked_fill(~allowed, 0).sum(1) / allowed.sum(1)
            losses = (1 - smoothing) * losses + smoothing * others
        shares = torch.ones_like(losses[:, 0]) if weights is None else weights
        return (losses.mean(1) * shares).sum(), shares.sum()

    def stack(self, targets: Sequence[npt.NDArray], width: int) -> Tensor:
        return torch.from_numpy(np.stack(targets))
