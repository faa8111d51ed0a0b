"""Attention whose scores come from positions alone: a learned, normalised filter over distances."""

from __future__ import annotations

from typing import Any, Literal

import torch
from jaxtyping import Bool, Float
from pydantic import Field
from torch import Tensor, nn

from mixling.errors import ConfigError
from mixling.mixers.base import Mixer, MixerConfig, State, real
from mixling.mixers.dropout import dropout
from mixling.mixers.positions import RelativeBias, RelativePositions, shared_positions


class Synthesizer(Mixer):
    """Y = concat_h(softmax(B_h) X W_v,h) W_o; B_h (N, N) is learned and depends on the distance j - i only.

    W_v, W_o (D, D) with biases; H heads, 2 max_len - 1 distances each: 2 (D^2 + D) + H (2 max_len - 1) parameters.
    Cost is O(N^2 * D + N * D^2). Source: the BERT "+ rel pos - attn" of gMLP, section 4.1, which it calls a variant of
    Synthesizer's random form.
    Decided beyond the paper: the biases start at zero, so that each token begins with the mean of all; padding and
    later tokens (causal) are masked before the softmax, so that rows sum to one; T5's buckets in place of one bias per
    distance lift the limit on the length. Steps keep the values, so that their memory grows with the text.
    """

    relative: RelativeBias

    def __init__(
        self,
        *,
        dim: int,
        max_len: int,
        num_heads: int,
        positions: RelativePositions,
        dropout: float,
        causal: bool,
    ) -> None:
        super().__init__()
        self.dim, self.num_heads, self.dropout, self.causal = dim, num_heads, dropout, causal
        self.max_len = max_len if positions.num_buckets is None else None
        self.relative = RelativeBias(positions, num_heads=num_heads, max_len=max_len, causal=causal)
        self.value = nn.Linear(dim, dim)
        self.out = nn.Linear(dim, dim)
        for linear in (self.value, self.out):
            nn.init.xavier_uniform_(linear.weight)
            nn.init.zeros_(linear.bias)

    def mix(
        self,
        x: Float[Tensor, "B N D"],
        mask: Bool[Tensor, "B N"],
        context: Float[Tensor, "B M D"] | None = None,
        context_mask: Bool[Tensor, "B M"] | None = None,
    ) -> Float[Tensor, "B N D"]:
        length = x.shape[1]
        self.check_length(length)
        seen = mask[:, None, None]  # (B, 1, 1, N)
        if self.causal:
            seen = seen & torch.ones(length, length, dtype=torch.bool, device=x.device).tril()
        scores = self.relative(length, length)
        # The lowest number, not minus infinity: a text of padding only stays finite.
        scores = torch.where(seen, scores, torch.finfo(scores.dtype).min)
        return self._mix(scores, self._values(real(x, mask)))

    def filters(self, length: int | None = None) -> dict[str, Float[Tensor, "H N N"]]:
        """With T5's buckets the longest is the length that it was built for, or that at which the last one begins."""
        length = self.relative.reach + 1 if length is None else length
        self.check_length(length)
        scores = self.relative(length, length)
        if self.causal:
            scores = scores.masked_fill(scores.new_ones(length, length).triu(1).bool(), -torch.inf)
        return {"softmax(B)": scores.softmax(-1)}

    def flops(self, batch: int, length: int, context_length: int | None = None) -> int:
        return 2 * (2 * batch * length * self.dim * self.dim) + 2 * batch * length * length * self.dim

    def start(
        self,
        like: Float[Tensor, "B D"],
        context: Float[Tensor, "B M D"] | None = None,
        context_mask: Bool[Tensor, "B M"] | None = None,
    ) -> State:
        assert self.causal, "steps are of causal mixing"
        return {"values": like.new_zeros(like.shape[0], self.num_heads, 0, self.dim // self.num_heads)}

    def step(self, x: Float[Tensor, "B D"], state: State) -> tuple[Float[Tensor, "B D"], State]:
        position = state["values"].shape[2]
        self.check_length(position + 1)
        values = torch.cat([state["values"], self._values(x[:, None])], dim=2)
        scores = self.relative(1, position + 1, start=position)[None]
        return self._mix(scores, values)[:, 0], {"values": values}

    def _values(self, x: Float[Tensor, "B M D"]) -> Float[Tensor, "B H M E"]:
        return self.value(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)

    def _mix(self, scores: Float[Tensor, "#B H N M"], values: Float[Tensor, "B H M E"]) -> Float[Tensor, "B N D"]:
        weights = dropout(scores.softmax(-1), self.dropout, self.training).to(values.dtype)
        return self.out((weights @ values).transpose(1, 2).flatten(2))


class SynthesizerConfig(MixerConfig):
    """Position scores only."""

    type: Literal["synthesizer"] = "synthesizer"
    num_heads: int = Field(4, ge=1, description="must divide the width")
    positions: RelativePositions = Field(RelativePositions(), description="the biases by distance")
    dropout: float = Field(0.0, ge=0, lt=1, description="on the probabilities, in training")

    supports_causal = True

    @property
    def shared_positions(self) -> dict[str, Any] | None:
        return shared_positions(self.positions, self.num_heads)

    def _build(self, dim: int, max_len: int, causal: bool) -> Synthesizer:
        if dim % self.num_heads:
            raise ConfigError(
                f"mixer 'synthesizer': width {dim} is not a multiple of num_heads {self.num_heads}; change one of them"
            )
        return Synthesizer(
            dim=dim,
            max_len=max_len,
            num_heads=self.num_heads,
            positions=self.positions,
            dropout=self.dropout,
            causal=causal,
        )
