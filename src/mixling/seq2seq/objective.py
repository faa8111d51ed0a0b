"""The objective of text to text: predicting each subword of the target from the source and the previous subwords."""

from __future__ import annotations

from typing import Literal

from mixling.tasks.objective import UNSMOOTHED, LossConfig, TokenObjective


class TextToText(TokenObjective):
    """Cross-entropy of the targets' subwords, averaged over the batch (T5, section 2).

    Args:
        metric: the metric that decides which evaluation is the best.
    """

    def __init__(
        self, metric: Literal["exact_match", "perplexity"] = "exact_match", loss: LossConfig = UNSMOOTHED
    ) -> None:
        super().__init__(loss)
        self.metric = metric
        self.less_is_better = metric == "perplexity"
