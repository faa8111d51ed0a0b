"""Positions that mixers and front ends share: added vectors, biases by distance, Toeplitz matrices. Not a mixer."""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING, Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

if TYPE_CHECKING:
    Size = int
else:
    Size = int | torch.SymInt  # a length that stays open while a graph is exported

PositionKind = Literal["none", "sinusoidal", "learned"]


class Positions(nn.Module):
    """x_i + p_i.

    "sinusoidal": p[2k] = sin(i / 10000^(2k/D)), p[2k+1] = cos of the same (Transformer, section 3.5), without scaling
    of x; "learned": a table of max_len rows that starts at N(0, 0.02^2); "none": x.
    """

    def __init__(self, kind: PositionKind, *, dim: int, max_len: int) -> None:
        super().__init__()
        self.weight: nn.Parameter | None = None
        self.table: Tensor | None
        self.register_buffer("table", _sinusoidal(max_len, dim) if kind == "sinusoidal" else None, persistent=False)
        if kind == "learned":
            self.weight = nn.Parameter(torch.empty(max_len, dim))
            nn.init.normal_(self.weight, std=0.02)

    def forward(self, x: Float[Tensor, "B N D"], start: int = 0) -> Float[Tensor, "B N D"]:
        """Add the positions from `start` on."""
        table = self.weight if self.table is None else self.table
        return x if table is None else x + table[start : start + x.shape[1]].to(x.dtype)


@functools.lru_cache(maxsize=8)
def _sinusoidal(length: int, dim: int) -> Float[Tensor, "N D"]:
    rates = torch.exp(torch.arange(0, dim, 2, dtype=torch.float32) * (-math.log(10_000.0) / dim))
    angles = torch.arange(length, dtype=torch.float32)[:, None] * rates
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)[:, :dim].contiguous()


class RelativeBias(nn.Module):
    """A bias for each head and each distance j - i between key and query; starts at zero.

    With `num_buckets` it is T5's: half of the buckets (all, if causal) for keys before the query, the first half of
    those one distance each, the others logarithmic up to `max_distance` and the last for all beyond (T5, section 2.1).
    Without, every distance has its own, 2 max_len - 1 of them.
    """

    def __init__(
        self, *, num_heads: int, max_len: int, num_buckets: int | None, max_distance: int = 128, causal: bool = False
    ) -> None:
        super().__init__()
        self.max_len, self.num_buckets, self.max_distance, self.causal = max_len, num_buckets, max_distance, causal
        self.weight = nn.Parameter(torch.zeros(num_buckets or 2 * max_len - 1, num_heads))

    def forward(self, queries: Size, keys: Size, start: int = 0) -> Float[Tensor, "H N M"]:
        """Biases of `queries` queries, the first at position `start`, on keys 0 to `keys` - 1."""
        distances = torch.arange(1 - start - queries, keys - start, device=self.weight.device)
        return toeplitz(self.weight[self.buckets(distances)].mT, queries)

    def buckets(self, distances: Int[Tensor, " R"]) -> Int[Tensor, " R"]:
        """Rows of the table for distances key - query."""
        if self.num_buckets is None:
            return distances + (self.max_len - 1)
        number = self.num_buckets if self.causal else self.num_buckets // 2
        later = torch.zeros_like(distances) if self.causal else (distances > 0) * number
        far = (-distances).clamp(min=0) if self.causal else distances.abs()
        exact = number // 2
        ratio = (far.clamp(min=1) / exact).log() / math.log(self.max_distance / exact)
        logarithmic = (exact + (ratio * (number - exact)).to(far.dtype)).clamp(max=number - 1)
        return later + torch.where(far < exact, far, logarithmic)


def toeplitz(values: Float[Tensor, "... R"], rows: Size) -> Float[Tensor, "... N M"]:
    """T[i, j] = values[N-1 + j - i] for N = `rows` and M = R - N + 1: the last row begins with the first value."""
    columns = values.shape[-1] - rows + 1
    return values.unfold(-1, columns, 1).flip(-2)
