"""Attention without the softmax: linear in the number of tokens, with a state of constant size."""

from __future__ import annotations

from typing import Literal

import torch
from jaxtyping import Bool, Float
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional as F

from mixling.layers.heads import init_xavier, split_heads
from mixling.layers.masks import as_mask, real
from mixling.layers.mixer import Mixer, State, wide
from mixling.layers.positions import Size
from mixling.networks.mixer import MixerConfig

MIN_CHUNK = 32  # tokens of the causal form that are mixed by their scores; shorter ones leave the processor idle


class LinearAttention(Mixer):
    """Y = concat_h(phi(Q_h) S_h / (phi(Q_h) z_h + eps)) W_o, S_h = sum_j phi(k_j) v_j^T, z_h = sum_j phi(k_j).

    Q = X W_q, K = C W_k, V = C W_v, all (D, D) in H heads of width E = D / H; C (M, D) is the context, or X itself;
    phi(x) = elu(x) + 1. Cost is O((N + M) * D * (D + E)): linear. S_h (E, E) and z_h (E) are kept as one matrix, by a
    column of ones beside V. Source: Linear Transformer (Katharopoulos et al. 2020), sections 3.2 and 3.3; eps as the
    authors' code.
    The causal form sums over j <= i. It goes by chunks of L = max(E, 32) tokens, scores within a chunk and the sum
    before it: O(N * D * (D + E + L)) time and O(N * (D + H * L)) memory, never N matrices S_h. One step is O(D^2), and
    its state H * E * (E + 1) numbers whatever the length.
    Decided beyond the paper: phi(k_j) is zero in padding. Sums are in float32 at least, under autocast too, since
    float16 overflows at 65,504. Weights start as in softmax attention here: Xavier, biases zero.

    Args:
        dim: D, the width of the tokens, a multiple of num_heads.
        num_heads: H.
        bias: whether the four projections have biases.
        eps: added to the normalizer.
        causal: queries see no later keys.
    """

    reads_context = True

    def __init__(
        self, *, dim: int, num_heads: int = 4, bias: bool = True, eps: float = 1e-6, causal: bool = False
    ) -> None:
        super().__init__()
        self.dim = dim
        self.num_heads = num_heads
        self.eps = eps
        self.causal = causal
        self.head_dim = dim // num_heads
        self.query = nn.Linear(dim, dim, bias=bias)
        self.key = nn.Linear(dim, dim, bias=bias)
        self.value = nn.Linear(dim, dim, bias=bias)
        self.out = nn.Linear(dim, dim, bias=bias)
        init_xavier(self.query, self.key, self.value, self.out)

    def mix(
        self,
        x: Float[Tensor, "B N D"],
        mask: Bool[Tensor, "B N"],
        context: Float[Tensor, "B M D"] | None = None,
        context_mask: Bool[Tensor, "B M"] | None = None,
    ) -> Float[Tensor, "B N D"]:
        query = self._queries(real(x, mask))
        if context is not None:
            return self._read(query, self.initial_state(x[:, 0], context, context_mask)["context"])
        keys, values = self._keys_and_values(x, mask)
        if self.causal:
            return self._divide(_causal(query, keys, values, self._chunk(x.shape[1])))
        return self._read(query, _sum(keys, values))

    def mixing_weights(
        self,
        x: Float[Tensor, "B N D"],
        mask: Bool[Tensor, "B N"],
        context: Float[Tensor, "B M D"] | None = None,
        context_mask: Bool[Tensor, "B M"] | None = None,
    ) -> dict[str, Float[Tensor, "B H N M"]]:
        """phi(Q_h) phi(K_h)^T over its rows' sums and eps, which `forward` never makes: O(N * M * D)."""
        source = (x, mask) if context is None or context_mask is None else (context, context_mask)
        scores = self._queries(real(x, mask)) @ self._keys_and_values(*source)[0].mT
        if self.causal and context is None:
            scores = scores.tril()
        return {"linear attention": scores / (scores.sum(-1, keepdim=True) + self.eps)}

    def flops(self, batch: int, length: int, context_length: int | None = None) -> int:
        keys = length if context_length is None else context_length
        width = self.head_dim + 1
        projections = 2 * batch * self.dim * self.dim * (2 * length + 2 * keys)
        if context_length is not None or not self.causal:
            return projections + 2 * batch * self.dim * width * (length + keys)
        chunk = self._chunk(length)
        padded = -(-length // chunk) * chunk
        within = chunk * (self.dim + self.num_heads * width)
        return projections + 2 * batch * padded * (2 * self.dim * width + within)

    def initial_state(
        self,
        like: Float[Tensor, "B D"],
        context: Float[Tensor, "B M D"] | None = None,
        context_mask: Bool[Tensor, "B M"] | None = None,
    ) -> State:
        if context is not None and context_mask is not None:
            return {"context": _sum(*self._keys_and_values(context, context_mask))}
        dtype = torch.promote_types(like.dtype, torch.float32)
        return {"own": like.new_zeros(len(like), self.num_heads, self.head_dim, self.head_dim + 1, dtype=dtype)}

    def step(self, x: Float[Tensor, "B D"], state: State) -> tuple[Float[Tensor, "B D"], State]:
        x = x[:, None]
        if "own" in state:
            state = {"own": state["own"] + _sum(*self._keys_and_values(x, as_mask(None, x)))}
        (total,) = state.values()
        return self._read(self._queries(x), total)[:, 0], state

    def _chunk(self, length: Size) -> int:
        chunk = max(self.head_dim, MIN_CHUNK)
        return chunk if torch.compiler.is_compiling() else min(chunk, length)

    def _queries(self, x: Float[Tensor, "B N D"]) -> Float[Tensor, "B H N E"]:
        return F.elu(split_heads(wide(self.query(x)), self.num_heads)) + 1

    def _keys_and_values(
        self, x: Float[Tensor, "B M D"], mask: Bool[Tensor, "B M"]
    ) -> tuple[Float[Tensor, "B H M E"], Float[Tensor, "B H M F"]]:
        x = real(x, mask)
        keys, values = (split_heads(wide(layer(x)), self.num_heads) for layer in (self.key, self.value))
        return (F.elu(keys) + 1) * mask[:, None, :, None], F.pad(values, (0, 1), value=1.0)

    def _read(self, query: Float[Tensor, "B H N E"], total: Float[Tensor, "B H E F"]) -> Float[Tensor, "B N D"]:
        with torch.autocast(query.device.type, enabled=False):
            read = query @ total
        return self._divide(read)

    def _divide(self, read: Float[Tensor, "B H N F"]) -> Float[Tensor, "B N D"]:
        mixed = read[..., :-1] / (read[..., -1:] + self.eps)
        output: Tensor = self.out(mixed.transpose(1, 2).flatten(2).to(self.out.weight.dtype))
        return output


def _sum(keys: Float[Tensor, "B H M E"], values: Float[Tensor, "B H M F"]) -> Float[Tensor, "B H E F"]:
    with torch.autocast(keys.device.type, enabled=False):
        return keys.mT @ values


def _causal(
    query: Float[Tensor, "B H N E"], keys: Float[Tensor, "B H N E"], values: Float[Tensor, "B H N F"], chunk: int
) -> Float[Tensor, "B H N F"]:
    """phi(q_i) sum_{j <= i} phi(k_j) [v_j, 1]^T, chunk by chunk."""
    length = query.shape[2]
    query, keys, values = (
        F.pad(item, (0, 0, 0, -length % chunk)).unflatten(2, (-1, chunk)) for item in (query, keys, values)
    )
    with torch.autocast(query.device.type, enabled=False):
        within = (query @ keys.mT).tril() @ values
        before = F.pad((keys.mT @ values).cumsum(2)[:, :, :-1], (0, 0, 0, 0, 1, 0))
        return (within + query @ before).flatten(2, 3)[:, :, :length]


class LinearAttentionConfig(MixerConfig):
    """The mixer of the Linear Transformer."""

    type: Literal["linear_attention"] = "linear_attention"
    num_heads: int = Field(default=4, ge=1, description="must divide the width")
    bias: bool = Field(default=True, description="whether the four projections have biases")
    eps: float = Field(default=1e-6, gt=0, description="added to the normalizer")

    supports_causal = True
    supports_cross = True

    def _build(self, dim: int, max_len: int, causal: bool) -> LinearAttention:
        self._check_heads(self.num_heads, width=dim)
        return LinearAttention(dim=dim, num_heads=self.num_heads, bias=self.bias, eps=self.eps, causal=causal)
