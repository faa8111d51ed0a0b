"""Masked language modeling: predicting hidden tokens from the tokens around them."""

from __future__ import annotations

import torch
from pydantic import Field
from torch import Tensor

from mixling.config import Config
from mixling.tasks.objective import NO_TARGET, TokenObjective


class MaskedLMConfig(Config):
    """Which tokens are hidden, and which are predicted."""

    fraction: float = Field(default=0.15, gt=0, lt=1, description="of the tokens that are to be predicted")
    masked: float = Field(default=0.8, ge=0, le=1, description="fraction of these that [MASK] replaces")
    random: float = Field(
        default=0.1, ge=0, le=1, description="fraction of these that a random one replaces; the rest stay"
    )
    whole_words: bool = Field(default=True, description="all subwords of a word are hidden, or none")
    cross_documents: bool = Field(
        default=True,
        description="an input may hold the end of a document and the next ones; false: one document, or a piece of it, "
        "and several short ones in the place of a long one",
    )
    num_words: int = Field(
        default=8192,
        ge=100,
        description="where tokens are words: how many of the most frequent ones are predicted; others are only read",
    )


class MaskedLM(TokenObjective):
    """Cross-entropy of the hidden tokens, averaged over the batch (BERT, section 3.1; gMLP, section 4)."""

    metric = "perplexity"
    less_is_better = True


def count_hits(logits: Tensor, targets: Tensor) -> Tensor:
    """Return the number of tokens that are predicted right."""
    return ((logits.argmax(-1) == targets) & (targets != NO_TARGET)).sum(dtype=torch.float64)
