"""Text to text: each piece of the target is told from the source and the subwords before it."""

from __future__ import annotations

from typing import Literal

from mixling.tasks.base import UNSMOOTHED, LossConfig, TokenObjective


class TextToText(TokenObjective):
    """Cross-entropy of the target's subwords, the mean over those of the batch (T5, section 2).

    Args:
        metric: what the best evaluation is chosen by.
    """

    def __init__(
        self, metric: Literal["exact_match", "perplexity"] = "exact_match", loss: LossConfig = UNSMOOTHED
    ) -> None:
        super().__init__(loss)
        self.metric = metric
        self.less_is_better = metric == "perplexity"
