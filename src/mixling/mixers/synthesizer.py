"""Attention whose scores come from positions alone: a learned, normalized filter over distances."""

from __future__ import annotations

from typing import Any, Literal

import torch
from jaxtyping import Bool, Float
from pydantic import Field
from torch import Tensor, nn

from mixling.layers.dropout import dropout
from mixling.layers.heads import init_xavier, split_heads
from mixling.layers.masks import real, visible
from mixling.layers.mixer import Mixer, State
from mixling.layers.positions import RelativeBias, RelativePositions, position_softmax, shared_positions
from mixling.networks.mixer import MixerConfig


class Synthesizer(Mixer):
    """Y = concat_h(softmax(B_h) X W_v,h) W_o; B_h (N, N) is learned and depends on the distance j - i only.

    W_v, W_o (D, D) with biases; H heads, 2 max_len - 1 distances each: 2 (D^2 + D) + H (2 max_len - 1) parameters.
    Cost is O(N^2 * D + N * D^2). Source: the BERT "+ rel pos - attn" of gMLP, section 4.1, which it calls a variant of
    Synthesizer's random form.
    Decided beyond the paper: the biases start at zero, so that each token begins with the mean of all; padding and
    later tokens (causal) are masked before the softmax, so that rows sum to one; T5's buckets in place of one bias per
    distance lift the limit on the length. Steps keep the values, so their memory grows with the text.

    Args:
        dim: D, the width of the tokens, a multiple of num_heads.
        max_len: tokens of the longest input.
        num_heads: H.
        positions: the biases by distance.
        dropout: rate on the probabilities, in training.
        causal: tokens see no later ones.
    """

    relative: RelativeBias

    def __init__(
        self,
        *,
        dim: int,
        max_len: int,
        num_heads: int = 4,
        positions: RelativePositions = RelativePositions(),
        dropout: float = 0.0,
        causal: bool = False,
    ) -> None:
        super().__init__()
        self.dim = dim
        self.num_heads = num_heads
        self.dropout = dropout
        self.causal = causal
        self.max_len = max_len if positions.num_buckets is None else None
        self.relative = RelativeBias(positions, num_heads=num_heads, max_len=max_len, causal=causal)
        self.value = nn.Linear(dim, dim)
        self.out = nn.Linear(dim, dim)
        init_xavier(self.value, self.out)

    def mix(self, x: Float[Tensor, "B N D"], mask: Bool[Tensor, "B N"]) -> Float[Tensor, "B N D"]:
        length = x.shape[1]
        self.check_length(length)
        scores = self.relative(length, length)
        # The lowest number, not minus infinity: a text of padding only stays finite.
        scores = torch.where(visible(mask, causal=self.causal)[:, None], scores, torch.finfo(scores.dtype).min)
        return self._mix(scores, split_heads(self.value(real(x, mask)), self.num_heads))

    def filters(self, length: int | None = None) -> dict[str, Float[Tensor, "H N N"]]:
        """With T5's buckets the longest is the length that it was built for, or that at which the last one begins."""
        length = self.relative.reach + 1 if length is None else length
        self.check_length(length)
        return {"softmax(B)": position_softmax(self.relative(length, length), causal=self.causal)}

    def flops(self, batch: int, length: int, context_length: int | None = None) -> int:
        return 2 * (2 * batch * length * self.dim * self.dim) + 2 * batch * length * length * self.dim

    def initial_state(self, like: Float[Tensor, "B D"]) -> State:
        return {"values": like.new_zeros(like.shape[0], self.num_heads, 0, self.dim // self.num_heads)}

    def step(self, x: Float[Tensor, "B D"], state: State) -> tuple[Float[Tensor, "B D"], State]:
        position = state["values"].shape[2]
        self.check_length(position + 1)
        values = torch.cat([state["values"], split_heads(self.value(x[:, None]), self.num_heads)], dim=2)
        scores = self.relative(1, position + 1, start=position)[None]
        return self._mix(scores, values)[:, 0], {"values": values}

    def _mix(self, scores: Float[Tensor, "#B H N M"], values: Float[Tensor, "B H M E"]) -> Float[Tensor, "B N D"]:
        weights = dropout(scores.softmax(-1), self.dropout, self.training).to(values.dtype)
        output: Tensor = self.out((weights @ values).transpose(1, 2).flatten(2))
        return output


class SynthesizerConfig(MixerConfig):
    """Position scores only."""

    type: Literal["synthesizer"] = "synthesizer"
    num_heads: int = Field(default=4, ge=1, description="must divide the width")
    positions: RelativePositions = Field(default=RelativePositions(), description="the biases by distance")
    dropout: float = Field(default=0.0, ge=0, lt=1, description="on the probabilities, in training")

    supports_causal = True

    @property
    def shared_positions(self) -> dict[str, Any] | None:
        return shared_positions(self.positions, self.num_heads)

    def _build(self, dim: int, max_len: int, causal: bool) -> Synthesizer:
        self._check_heads(self.num_heads, width=dim)
        values = self.model_dump(exclude={"type", "positions"})
        return Synthesizer(dim=dim, max_len=max_len, positions=self.positions, causal=causal, **values)
