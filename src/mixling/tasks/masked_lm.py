"""Masked language modelling: tokens are hidden, and told from the tokens around them."""

from __future__ import annotations

import torch
from pydantic import Field
from torch import Tensor

from mixling.config import Config
from mixling.tasks.base import NO_TARGET, TokenObjective


class MaskedLMConfig(Config):
    """What is hidden, and what is told of it."""

    fraction: float = Field(0.15, gt=0, lt=1, description="of the tokens that are to be told")
    masked: float = Field(0.8, ge=0, le=1, description="share of these that [MASK] stands for")
    random: float = Field(0.1, ge=0, le=1, description="share of these that another one stands for; the rest stay")
    whole_words: bool = Field(True, description="all subwords of a word are hidden, or none")
    num_words: int = Field(
        8192, ge=100, description="where tokens are words: how many, the most frequent, are told; others are only read"
    )


class MaskedLM(TokenObjective):
    """Cross-entropy of the hidden tokens, the mean over those of the batch (BERT, section 3.1; gMLP, section 4)."""

    metric = "perplexity"
    less_is_better = True


def count_hits(logits: Tensor, targets: Tensor) -> Tensor:
    """How many tokens are told right."""
    return ((logits.argmax(-1) == targets) & (targets != NO_TARGET)).sum(dtype=torch.float64)
