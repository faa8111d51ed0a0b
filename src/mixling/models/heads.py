"""Heads: from token vectors to logits."""

from __future__ import annotations

from typing import cast

import torch
from jaxtyping import Float, Shaped
from torch import Tensor, nn
from torch.nn import functional as F

from mixling.layers.dropout import dropout
from mixling.layers.fused import Pools, can_fuse
from mixling.layers.masks import as_mask
from mixling.layers.transitions import TagScores
from mixling.networks.config import HeadConfig


class PoolingHead(nn.Module):
    """logits = W pool(X) + b; the pool is over real tokens, and 0 without any.

    Attention pooling is the sum of softmax(X a + c)_i x_i, with one score per token (pNLP-Mixer, section 3.2; the
    parameter counts imply a scalar score). "class" reads the first token, which `Model` then puts before the text.

    Args:
        config: the pooling and dropout.
        dim: D, the width of the tokens.
        num_outputs: C.
    """

    def __init__(self, config: HeadConfig, *, dim: int, num_outputs: int) -> None:
        super().__init__()
        self.pooling = config.pooling
        self.dropout = config.dropout
        self.score = nn.Linear(dim, 1) if config.pooling in ("attention", "all") else None
        self.output = nn.Linear(3 * dim if config.pooling == "all" else dim, num_outputs)

    def forward(self, x: Float[Tensor, "B N D"], mask: Shaped[Tensor, "B N"] | None = None) -> Float[Tensor, "B C"]:
        """Return the logits (B, C); `mask` as in `Mixer.forward`."""
        mask = as_mask(mask, x)
        if self.pooling == "all" and self.score is not None and can_fuse(x, self.training, x.shape[2]):
            pooled = Pools.apply(x, mask, self.score.weight, self.score.bias)
            logits: Tensor = self.output(dropout(pooled, self.dropout, self.training))
            return logits
        real = mask[..., None]
        pools = []
        if self.score is not None:
            scores = self.score(x)
            # Under autocast the scores and x differ in precision; the minimum must be of the scores' type.
            weights = scores.masked_fill(~real, torch.finfo(scores.dtype).min).softmax(dim=1)
            pools.append((weights.mT @ x.masked_fill(~real, 0)).squeeze(1))
        if self.pooling == "class":
            pools.append(x[:, 0])
        if self.pooling in ("mean", "all"):
            wide = torch.promote_types(x.dtype, torch.float32)  # sums over long texts overflow float16
            mean = x.masked_fill(~real, 0).sum(1, dtype=wide) / real.sum(1).clamp(min=1)
            pools.append(mean.to(x.dtype))
        if self.pooling in ("max", "all"):
            if x.shape[1] == 0 and not torch.compiler.is_compiling():  # no maximum is defined
                pools.append(x.sum(1))
            else:
                highest = x.masked_fill(~real, torch.finfo(x.dtype).min).amax(1)
                pools.append(highest.masked_fill(~real.any(1), 0))
        return cast(Tensor, self.output(dropout(torch.cat(pools, 1), self.dropout, self.training)))


class LMHead(nn.Module):
    """logits_i = E LN(x_i) + b over the subwords or words that a masked token may be.

    E is the embedding table if it has a row for each of them (BERT, gMLP), else a matrix of the head. The norm replaces
    BERT's transform and the norm after the last block, both missing in gMLP's parameter counts. Fine-tuning
    drops the head of a pretrained model.

    Args:
        dim: D, the width of the tokens.
        num_outputs: C, number of subwords or words.
        tied: use the embedding table as E.
    """

    def __init__(self, *, dim: int, num_outputs: int, tied: bool) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.weight = None if tied else nn.Parameter(torch.empty(num_outputs, dim))
        if self.weight is not None:
            nn.init.normal_(self.weight, std=dim**-0.5)
        self.bias = nn.Parameter(torch.zeros(num_outputs))

    def forward(self, x: Float[Tensor, "B N D"], table: Float[Tensor, "V D"]) -> Float[Tensor, "B N C"]:
        weight = table[: len(self.bias)] if self.weight is None else self.weight
        return F.linear(self.norm(x), weight, self.bias)


class TokenHead(nn.Module):
    """logits_i = W x_i + b for every token.

    With `transitions`, tags have scores (C, C) of following each other as well, which begin at 0; in training both are
    returned (`mixling.layers.transitions`).

    Args:
        config: the dropout.
        dim: D, the width of the tokens.
        num_outputs: C.
        transitions: whether outputs are tags whose transitions are learned.
    """

    def __init__(self, config: HeadConfig, *, dim: int, num_outputs: int, transitions: bool = False) -> None:
        super().__init__()
        self.dropout = config.dropout
        self.output = nn.Linear(dim, num_outputs)
        self.transitions = nn.Parameter(torch.zeros(num_outputs, num_outputs)) if transitions else None

    def forward(
        self, x: Float[Tensor, "B N D"], mask: Shaped[Tensor, "B N"] | None = None
    ) -> Float[Tensor, "B N C"] | TagScores:
        logits: Tensor = self.output(dropout(x, self.dropout, self.training))
        if self.transitions is None or not self.training:
            return logits
        return TagScores(logits, self.transitions.clone())  # a shard's memory is freed after the forward pass
