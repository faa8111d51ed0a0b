"""The spatial gating unit of gMLP with its channel projections, and aMLP's tiny attention beside it."""

from __future__ import annotations

from typing import Literal

import torch
from jaxtyping import Bool, Float
from pydantic import Field, model_validator
from torch import Tensor, nn
from torch.nn import functional as F

from mixling.errors import ConfigError
from mixling.layers.masks import real, visible
from mixling.layers.mixer import Mixer, State
from mixling.layers.positions import FFT_FROM, Size, toeplitz, toeplitz_fft_flops, toeplitz_product
from mixling.networks.mixer import MixerConfig

Variant = Literal["split", "multiplicative", "additive", "linear"]


class TinyAttention(nn.Module):
    """softmax(Q K^T / sqrt(A)) V W_o + b_o with one head, [Q | K | V] = X W_qkv + b_qkv; W_qkv (D, 3A), W_o (A, E)."""

    def __init__(self, *, dim: int, inner_dim: int, out_dim: int) -> None:
        super().__init__()
        self.scale = inner_dim**-0.5
        self.qkv = nn.Linear(dim, 3 * inner_dim)
        self.out = nn.Linear(inner_dim, out_dim)

    def forward(
        self,
        query: Float[Tensor, "B N A"],
        keys: Float[Tensor, "B M A"],
        values: Float[Tensor, "B M A"],
        seen: Bool[Tensor, "#B #N M"] | None,
    ) -> Float[Tensor, "B N E"]:
        output: Tensor = self.out(self.weights(query, keys, seen) @ values)
        return output

    def weights(
        self, query: Float[Tensor, "B N A"], keys: Float[Tensor, "B M A"], seen: Bool[Tensor, "#B #N M"] | None
    ) -> Float[Tensor, "B N M"]:
        scores = (query * self.scale) @ keys.mT
        if seen is not None:  # the lowest finite number, not -inf: a row that sees nothing stays finite
            scores = scores.masked_fill(~seen, torch.finfo(scores.dtype).min)
        weights: Tensor = scores.softmax(dim=-1)
        return weights


class SpatialGating(Mixer):
    """Y = V s(Z), Z = gelu(U X); by `variant`, with f(Z) = W LN(Z) + b, a linear map over the tokens:

    "split": s(Z) = Z1 * f(Z2), Z = [Z1 | Z2] over the channels; "multiplicative": Z * f(Z); "additive": Z + f(Z);
    "linear": f(Z). With `tiny_attention_dim` = A (aMLP), f gains a one-head attention over X before the product.
    Shapes: X, Y (N, D); U (D, F); Z (N, F); f's output (N, E), E = F / 2 if split, else F; V (E, D); b (n) for
    n = `max_len`; W is "toeplitz", W[i, j] = w[n-1 + j-i] of 2n - 1 numbers, or "dense", n x n. Exact gelu.
    Cost: O(N D F) for the projections and O(N^2 E) for W, by the FFT O(N log N E) for long Toeplitz.
    Source: gMLP, "Pay Attention to MLPs", section 2; 4.3 for aMLP; Table 3 for the forms.

    W starts in U(-1e-3 / n, 1e-3 / n) and b at one: the products start as the identity on Z (Z1).
    Decided beyond the paper:
    - LN(Z2), and the attention's keys, are zero at padding, so that padding changes nothing. The paper masks nothing:
      `mask_padding=False`;
    - N < n tokens take the same w, centered, or the leading N x N corner of a dense W, and the first N of b. `resize`
      makes a unit for longer inputs;
    - causal: keys up to the query only: w has the n numbers w[0..n-1], a dense W its lower triangle, and the attention
      the same mask. Steps remember LN(Z2) (and the attention's keys and values) of every token;
    - the tiny attention's projections have biases; all forms start with the same W and b.

    Args:
        dim: D, the width of the tokens.
        max_len: n, tokens of the longest input.
        ffn_dim: F, channels after U; even in the variant "split".
        variant: how s is made of f, as above.
        weights: W as one number for each distance, or for each pair of positions.
        tiny_attention_dim: A; None: gMLP, without attention.
        mask_padding: False: padding reaches real tokens, as in the paper.
        causal: tokens see no later ones.
    """

    max_len: int

    def __init__(
        self,
        *,
        dim: int,
        max_len: int,
        ffn_dim: int = 3072,
        variant: Variant = "split",
        weights: Literal["toeplitz", "dense"] = "toeplitz",
        tiny_attention_dim: int | None = None,
        mask_padding: bool = True,
        causal: bool = False,
    ) -> None:
        super().__init__()
        self.dim = dim
        self.max_len = max_len
        self.ffn_dim = ffn_dim
        self.variant = variant
        self.dense = weights == "dense"
        self.mask_padding = mask_padding
        self.causal = causal
        self.gate_dim = ffn_dim // 2 if variant == "split" else ffn_dim  # E
        self.expand = nn.Linear(dim, ffn_dim)  # U
        self.norm = nn.LayerNorm(self.gate_dim)
        shape = (max_len, max_len) if self.dense else (max_len if causal else 2 * max_len - 1,)
        self.weight = nn.Parameter(torch.empty(shape))  # W, or w
        nn.init.uniform_(self.weight, -1e-3 / max_len, 1e-3 / max_len)
        self.bias = nn.Parameter(torch.ones(max_len))
        self.attention: TinyAttention | None = None
        if tiny_attention_dim is not None:
            self.attention = TinyAttention(dim=dim, inner_dim=tiny_attention_dim, out_dim=self.gate_dim)
        self.contract = nn.Linear(self.gate_dim, dim)  # V

    def mix(self, x: Float[Tensor, "B N D"], mask: Bool[Tensor, "B N"]) -> Float[Tensor, "B N D"]:
        length = x.shape[1]
        self.check_length(length)
        if self.mask_padding:
            x = real(x, mask)
        z, normed = self._expand(x)
        if self.mask_padding:
            normed = real(normed, mask)
        gate = self._spatial(normed) + self.bias[:length, None]
        if self.attention is not None:
            gate = gate + self.attention(*self.attention.qkv(x).chunk(3, dim=-1), self._seen(mask))
        return self._combine(z, gate)

    def mixing_weights(
        self, x: Float[Tensor, "B N D"], mask: Bool[Tensor, "B N"]
    ) -> dict[str, Float[Tensor, "B 1 N N"]]:
        if self.attention is None:
            return {}
        self.check_length(x.shape[1])
        query, keys, _ = self.attention.qkv(real(x, mask) if self.mask_padding else x).chunk(3, dim=-1)
        return {"tiny attention": self.attention.weights(query, keys, self._seen(mask))[:, None]}

    def filters(self, length: int | None = None) -> dict[str, Float[Tensor, "1 N N"]]:
        length = self.max_len if length is None else length
        self.check_length(length)
        if self.dense:
            weight = self.weight[:length, :length]
            return {"spatial weights": (weight.tril() if self.causal else weight)[None]}
        return {"spatial weights": toeplitz(self._by_distance(length), length)[None]}

    def flops(self, batch: int, length: int, context_length: int | None = None) -> int:
        """Count matrix products only: from FFT_FROM tokens on FFTs replace the Toeplitz product, see `fft_flops`."""
        products = self.dim * self.ffn_dim + self.gate_dim * self.dim
        if self.dense or length < FFT_FROM:
            products += length * self.gate_dim
        if self.attention is not None:
            inner = self.attention.out.in_features
            products += 3 * self.dim * inner + 2 * length * inner + inner * self.gate_dim
        return 2 * batch * length * products

    def fft_flops(self, batch: int, length: int) -> int:
        return 0 if self.dense else batch * toeplitz_fft_flops(length, self.gate_dim)

    def initial_state(self, like: Float[Tensor, "B D"]) -> State:
        state = {"normed": like.new_zeros(like.shape[0], 0, self.gate_dim)}
        if self.attention is not None:
            empty = like.new_zeros(like.shape[0], 0, self.attention.out.in_features)
            state |= {"keys": empty, "values": empty}
        return state

    def step(self, x: Float[Tensor, "B D"], state: State) -> tuple[Float[Tensor, "B D"], State]:
        x = x[:, None]
        z, normed = self._expand(x)
        history = torch.cat([state["normed"], normed], dim=1)
        length = history.shape[1]
        self.check_length(length)
        # The last row of the weights of `length` tokens; one product for it, since all else is known.
        row = self.weight[length - 1, :length] if self.dense else self.weight[self.max_len - length :]
        gate = row @ history + self.bias[length - 1]  # (B, E)
        after = {"normed": history}
        gate = gate[:, None]
        if self.attention is not None:
            query, key, value = self.attention.qkv(x).chunk(3, dim=-1)
            after |= {"keys": torch.cat([state["keys"], key], 1), "values": torch.cat([state["values"], value], 1)}
            gate = gate + self.attention(query, after["keys"], after["values"], None)
        return self._combine(z, gate)[:, 0], after

    @torch.no_grad()
    def resize(self, max_len: int) -> None:
        """Allow inputs of up to `max_len` tokens; outputs for inputs of up to the old length stay the same.

        New weights are zero and new biases one. The parameters are new ones: make the optimizer afterwards.

        Raises:
            ConfigError: `max_len` is less than it was.
        """
        more = max_len - self.max_len
        if more < 0:
            raise ConfigError(f"SpatialGating: cannot resize from {self.max_len} tokens to {max_len}: cut the input")
        if self.dense:
            weight = F.pad(self.weight, (0, more, 0, more))
        else:
            weight = F.pad(self.weight, (more, 0 if self.causal else more))
        self.weight = nn.Parameter(weight, requires_grad=self.weight.requires_grad)
        self.bias = nn.Parameter(F.pad(self.bias, (0, more), value=1.0), requires_grad=self.bias.requires_grad)
        self.max_len = max_len

    def _expand(self, x: Float[Tensor, "B N D"]) -> tuple[Float[Tensor, "B N E"], Float[Tensor, "B N E"]]:
        """Return Z and LN(Z), or Z1 and LN(Z2)."""
        z = F.gelu(self.expand(x))
        z, gated = z.chunk(2, dim=-1) if self.variant == "split" else (z, z)
        return z, self.norm(gated)

    def _spatial(self, normed: Float[Tensor, "B N E"]) -> Float[Tensor, "B N E"]:
        length = normed.shape[1]
        if self.dense:
            weight = self.weight[:length, :length]
            return (weight.tril() if self.causal else weight) @ normed
        return toeplitz_product(self._by_distance(length), normed)

    def _by_distance(self, length: Size) -> Float[Tensor, " R"]:
        """Return w for an input of `length` tokens, from -(length - 1) to length - 1; causal: zero for later keys."""
        if self.causal:
            return F.pad(self.weight[self.max_len - length :], (0, length - 1))
        return self.weight[self.max_len - length : self.max_len - 1 + length]

    def _seen(self, mask: Bool[Tensor, "B N"]) -> Bool[Tensor, "#B #N N"] | None:
        """Return which keys the queries of the tiny attention see; None: all."""
        if not self.mask_padding:
            return visible(torch.ones_like(mask[:1]), causal=True) if self.causal else None
        return visible(mask, causal=self.causal)

    def _combine(self, z: Float[Tensor, "B N E"], gate: Float[Tensor, "B N E"]) -> Float[Tensor, "B N D"]:
        if self.variant == "additive":
            gate = z + gate
        elif self.variant != "linear":
            gate = z * gate
        output: Tensor = self.contract(gate)
        return output


class SpatialGatingConfig(MixerConfig):
    """gMLP's unit between its channel projections; a block of gMLP is this mixer alone, without a feed-forward."""

    type: Literal["spatial_gating"] = "spatial_gating"
    supports_causal = True
    ffn_dim: int = Field(default=3072, ge=1, description="channels after U; even in the variant split")
    variant: Variant = Field(default="split", description="the use of f(Z), as in Table 3 of the paper")
    weights: Literal["toeplitz", "dense"] = Field(
        default="toeplitz", description="between tokens: one for each distance, or one for each pair of positions"
    )
    tiny_attention_dim: int | None = Field(
        default=None,
        ge=1,
        description="width of aMLP's attention, in the paper 64 or 128; None: gMLP, without attention",
    )
    mask_padding: bool = Field(default=True, description="False: values in padding reach real tokens, as in the paper")

    @model_validator(mode="after")
    def _halves_are_whole(self) -> SpatialGatingConfig:
        if self.variant == "split" and self.ffn_dim % 2:
            raise ValueError(f"ffn_dim = {self.ffn_dim} cannot be split in two halves; make it even")
        return self

    def _build(self, dim: int, max_len: int, causal: bool) -> SpatialGating:
        return SpatialGating(dim=dim, max_len=max_len, causal=causal, **self.model_dump(exclude={"type"}))
