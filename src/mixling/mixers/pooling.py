"""Bag of words: every token gets the same summary of all tokens."""

from __future__ import annotations

from typing import Literal

import torch
from jaxtyping import Bool, Float
from pydantic import Field
from torch import Tensor

from mixling.layers.mixer import Mixer, State, wide
from mixling.networks.mixer import MixerConfig

PoolingKind = Literal["mean", "max"]


class Pooling(Mixer):
    """Y_i = mean_j X_j, or max_j X_j for each channel, over the real tokens j; no parameters, no matrix product.

    Cost is O(N * D). The causal form is over j <= i, a running mean or maximum whose state is O(D). Source: the bag of
    words, as a mixer: deep averaging networks (Iyyer et al. 2015), section 2.1, before their feed-forward layers.
    Decided beyond it: a text of padding only has the summary zero; sums are in float32 at least.

    Args:
        dim: D, the width of the tokens.
        pooling: the mean or the maximum.
        causal: over the tokens up to each.
    """

    def __init__(self, *, dim: int, pooling: PoolingKind = "mean", causal: bool = False) -> None:
        super().__init__()
        self.dim = dim
        self.pooling = pooling
        self.causal = causal

    def mix(self, x: Float[Tensor, "B N D"], mask: Bool[Tensor, "B N"]) -> Float[Tensor, "B N D"]:
        real = mask[..., None]
        if self.pooling == "max":
            x = x.masked_fill(~real, -torch.inf)
            y = x.cummax(1).values if self.causal else x.amax(1, keepdim=True)
            return y.masked_fill(y == -torch.inf, 0.0).expand_as(x)
        known = wide(x.masked_fill(~real, 0.0))
        total, count = (known.cumsum(1), real.cumsum(1)) if self.causal else (known.sum(1, True), real.sum(1, True))
        return (total / count.clamp(min=1)).to(x.dtype).expand_as(x)

    def flops(self, batch: int, length: int, context_length: int | None = None) -> int:
        return 0

    def initial_state(self, like: Float[Tensor, "B D"]) -> State:
        if self.pooling == "max":
            return {"max": torch.full_like(like, -torch.inf)}
        total = torch.zeros_like(like, dtype=torch.promote_types(like.dtype, torch.float32))
        return {"sum": total, "count": torch.zeros(len(like), dtype=torch.long, device=like.device)}

    def step(self, x: Float[Tensor, "B D"], state: State) -> tuple[Float[Tensor, "B D"], State]:
        if self.pooling == "max":
            y = torch.maximum(state["max"], x)
            return y, {"max": y}
        total = state["sum"] + x
        count = state["count"] + 1
        return (total / count[:, None]).to(x.dtype), {"sum": total, "count": count}


class PoolingConfig(MixerConfig):
    """The bag of words."""

    type: Literal["pooling"] = "pooling"
    pooling: PoolingKind = Field(default="mean", description="the summary of all tokens, by channel")

    supports_causal = True

    def _build(self, dim: int, max_len: int, causal: bool) -> Pooling:
        return Pooling(dim=dim, pooling=self.pooling, causal=causal)
