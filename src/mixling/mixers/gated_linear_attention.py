"""Linear attention that forgets: each channel of the state decays by a gate made from the token."""

from __future__ import annotations

from typing import Literal

import torch
from jaxtyping import Bool, Float
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional as F

from mixling.layers.heads import init_xavier, split_heads
from mixling.layers.masks import as_mask, real
from mixling.layers.mixer import DEFAULT_MAX_LEN, Mixer, State, wide
from mixling.layers.norms import RMSNorm
from mixling.layers.positions import Size
from mixling.layers.recurrence import recur
from mixling.networks.mixer import MixerConfig

GATED_CHUNK = 16  # tokens that are mixed by their scores
_LEAST = -4.0  # of a token's log a, so that the inverse of a chunk's decay, exp(64), is a number of float32


class GatedLinearAttention(Mixer):
    """Y = (swish(X W_r + b_r) * concat_h(RMSNorm(o_h))) W_o, o_t = q_t S_t / sqrt(E), S_t = a_t^T * S_{t-1} + k_t^T v_t

    Q = X W_q, K = X W_k, both (N, D / 2), and V = X W_v (N, D) in H heads, whose keys have E = D / 2 / H channels and
    whose values F = D / H. The gate a_t = sigmoid(x_t W_1 W_2 + b)^(1 / tau) has a number for each channel of the keys;
    W_1 (D, R), W_2 (R, D / 2). Source: Gated Linear Attention (Yang et al. 2023, arXiv:2312.06635), section 4, with the
    paper's R = tau = 16 and, as in the authors' code, RMSNorm and scaled queries.
    It goes by chunks of L = 16 tokens: scores within a chunk, and the decayed state before it. Cost is
    O(N * D * (D + L)). One step is O(D^2), and its state D^2 / 2 / H numbers whatever the length.
    Decided beyond the paper, which is causal: the full form adds the same recurrence over the reversed text, with the
    same weights, and counts a token's own key once; a_t is at least exp(-4); in padding K is zero and a is one. Sums
    are in float32 at least. Weights start as in softmax attention here: Xavier, biases zero. An exported model is exact
    for texts of up to `max_len` tokens.

    Args:
        dim: D, the width of the tokens, a multiple of 2 num_heads.
        max_len: tokens of the longest input to an exported model.
        num_heads: H.
        gate_rank: R.
        temperature: tau; the greater, the slower the state decays.
        causal: tokens see no later ones.
    """

    def __init__(
        self,
        *,
        dim: int,
        max_len: int = DEFAULT_MAX_LEN,
        num_heads: int = 4,
        gate_rank: int = 16,
        temperature: float = 16.0,
        causal: bool = False,
    ) -> None:
        super().__init__()
        self.dim = dim
        self.num_heads = num_heads
        self.temperature = temperature
        self.causal = causal
        self.longest = max_len
        self.query = nn.Linear(dim, dim // 2, bias=False)
        self.key = nn.Linear(dim, dim // 2, bias=False)
        self.value = nn.Linear(dim, dim, bias=False)
        self.gate_down = nn.Linear(dim, gate_rank, bias=False)
        self.gate_up = nn.Linear(gate_rank, dim // 2)
        self.norm = RMSNorm(dim // num_heads)
        self.swish = nn.Linear(dim, dim)
        self.out = nn.Linear(dim, dim, bias=False)
        init_xavier(self.query, self.key, self.value, self.gate_down, self.gate_up, self.swish, self.out)

    def mix(self, x: Float[Tensor, "B N D"], mask: Bool[Tensor, "B N"]) -> Float[Tensor, "B N D"]:
        x = real(x, mask)
        query, keys, values, decay = self._parts(x, mask)
        chunk = GATED_CHUNK if torch.compiler.is_compiling() else min(GATED_CHUNK, x.shape[1])
        read = gated_scan(query, keys, values, decay, chunk=chunk, longest=self.longest)
        if not self.causal:
            turned = (item.flip(2) for item in (query, keys, values, decay))
            ahead = gated_scan(*turned, chunk=chunk, longest=self.longest).flip(2)
            read = read + ahead - (query * keys).sum(-1, keepdim=True) * values
        return self._output(x, read)

    def flops(self, batch: int, length: int, context_length: int | None = None) -> int:
        rank = self.gate_down.out_features
        projections = self.dim * (4 * self.dim + rank) + rank * self.dim // 2
        chunk = min(GATED_CHUNK, length)
        padded = -(-length // chunk) * chunk
        scan = padded * self.dim * (3 * chunk + 2 * self.dim // self.num_heads) // 2
        return 2 * batch * (length * projections + scan * (1 if self.causal else 2))

    def initial_state(self, like: Float[Tensor, "B D"]) -> State:
        dtype = torch.promote_types(like.dtype, torch.float32)
        keys, values = (size // self.num_heads for size in (self.dim // 2, self.dim))
        return {"own": like.new_zeros(len(like), self.num_heads, keys, values, dtype=dtype)}

    def step(self, x: Float[Tensor, "B D"], state: State) -> tuple[Float[Tensor, "B D"], State]:
        x = x[:, None]
        query, keys, values, decay = self._parts(x, as_mask(None, x))
        total = decay.exp().mT * state["own"] + keys.mT * values
        return self._output(x, query @ total)[:, 0], {"own": total}

    def _parts(self, x: Float[Tensor, "B N D"], mask: Bool[Tensor, "B N"]) -> list[Float[Tensor, "B H N C"]]:
        """Return scaled queries, keys, values and log a, by heads."""
        gate = F.logsigmoid(wide(self.gate_up(self.gate_down(x)))) / self.temperature
        there = mask[..., None]
        parts = (wide(self.query(x)), wide(self.key(x)) * there, wide(self.value(x)), gate.clamp(min=_LEAST) * there)
        query, *others = (split_heads(part, self.num_heads) for part in parts)
        return [query * query.shape[-1] ** -0.5, *others]

    def _output(self, x: Float[Tensor, "B N D"], read: Float[Tensor, "B H N F"]) -> Float[Tensor, "B N D"]:
        mixed = self.norm(read.to(self.out.weight.dtype)).transpose(1, 2).flatten(2)
        output: Tensor = self.out(F.silu(self.swish(x)) * mixed)
        return output


def gated_scan(
    query: Float[Tensor, "B H N E"],
    keys: Float[Tensor, "B H N E"],
    values: Float[Tensor, "B H N F"],
    decay: Float[Tensor, "B H N E"],
    *,
    chunk: Size,
    longest: int,
) -> Float[Tensor, "B H N F"]:
    """Return q_t S_t of every token, S_t = diag(exp(decay_t)) S_{t-1} + k_t^T v_t, chunk by chunk.

    Args:
        longest: tokens of the longest input of a graph whose length is open.
    """
    length = query.shape[2]
    query, keys, values, decay = (
        F.pad(item, (0, 0, 0, -length % chunk)).unflatten(2, (-1, chunk)) for item in (query, keys, values, decay)
    )
    with torch.autocast(query.device.type, enabled=False):
        passed = decay.cumsum(3)  # from the beginning of the chunk to each token
        whole = passed[:, :, :, -1:]
        query = query * passed.exp()
        within = (query @ (keys * (-passed).exp()).mT).tril() @ values
        added = (keys * (whole - passed).exp()).mT @ values  # (B, H, T, E, F)
        kept = whole.exp().mT.expand_as(added)
        kept, added = (item.transpose(1, 2) for item in (kept, added))
        after = (
            recur(kept.flatten(2), added.flatten(2), longest=-(-longest // GATED_CHUNK)).view_as(added).transpose(1, 2)
        )
        before = F.pad(after[:, :, :-1], (0, 0, 0, 0, 1, 0))
        return (within + query @ before).flatten(2, 3)[:, :, :length]


class GatedLinearAttentionConfig(MixerConfig):
    """The mixer of Gated Linear Attention."""

    type: Literal["gated_linear_attention"] = "gated_linear_attention"
    num_heads: int = Field(default=4, ge=1, description="must divide half of the width")
    gate_rank: int = Field(default=16, ge=1, description="width of the gate's hidden layer")
    temperature: float = Field(default=16.0, gt=0, description="the greater, the slower the state decays")

    supports_causal = True

    def _build(self, dim: int, max_len: int, causal: bool) -> GatedLinearAttention:
        self._check_heads(2 * self.num_heads, width=dim)
        return GatedLinearAttention(
            dim=dim,
            max_len=max_len,
            num_heads=self.num_heads,
            gate_rank=self.gate_rank,
            temperature=self.temperature,
            causal=causal,
        )
