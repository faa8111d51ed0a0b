"""The MLPs that generate a mixing matrix from the tokens, and the matrix, multiplied out or as its factors."""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F


class Generated(NamedTuple):
    """A generated matrix W (N, U) = G B^T + 1 b^T for each head: multiplied out, or as its factors.

    The factors never make W: W^T X = B (G^T X) + b (1^T X) and W V = G (B^T V) + 1 (b^T V), at the cost of an N x E
    and a U x E by E product each.
    """

    features: Float[Tensor, "K B N E"]
    weight: Float[Tensor, "K U E"]
    bias: Float[Tensor, "K U"] | None
    matrix: Float[Tensor, "K B N U"] | None

    def float(self) -> Generated:
        """Return it in single precision."""
        bias, matrix = (None if item is None else item.float() for item in (self.bias, self.matrix))
        return Generated(self.features.float(), self.weight.float(), bias, matrix)

    def gather(self, values: Float[Tensor, "K B N E"]) -> Float[Tensor, "K B U E"]:
        """Return W^T X."""
        values = values.to(self.features.dtype)
        if self.matrix is not None:
            return self.matrix.mT @ values
        sums = self.weight[:, None] @ (self.features.mT @ values)
        return sums if self.bias is None else sums.addcmul_(self.bias[:, None, :, None], values.sum(2)[:, :, None])

    def scatter(self, hidden: Float[Tensor, "K B U E"]) -> Float[Tensor, "K B N E"]:
        """Return W V."""
        if self.matrix is not None:
            return self.matrix @ hidden
        y = self.features @ (self.weight.mT[:, None] @ hidden)
        return y if self.bias is None else y.add_(self.bias[:, None, None] @ hidden)


class Hypernetwork(nn.Module):
    """The MLP that makes a row of W from each token, for all heads.

    Args:
        dim: D, the width of the tokens.
        hidden_dim: H, generated hidden units of all heads together.
        num_heads: K, which divides both.
        bias: whether its two layers have biases.
    """

    def __init__(self, *, dim: int, hidden_dim: int, num_heads: int, bias: bool) -> None:
        super().__init__()
        self.first = HeadLinear(dim // num_heads, dim // num_heads, num_heads=num_heads, bias=bias)
        self.second = HeadLinear(dim // num_heads, hidden_dim // num_heads, num_heads=num_heads, bias=bias)

    def forward(self, x: Float[Tensor, "K B N E"], *, factored: bool) -> Generated:
        features = gelu_inplace(self.first(x))
        weight, bias = self.second.by_head()
        return Generated(features, weight, bias, None if factored else self.second(features))


class HeadLinear(nn.Module):
    """A linear layer for each head; one matrix has the rows of all heads, one head after another."""

    def __init__(self, inputs: int, outputs: int, *, num_heads: int, bias: bool) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.weight = nn.Parameter(torch.empty(num_heads * outputs, inputs))
        self.bias = nn.Parameter(torch.zeros(num_heads * outputs)) if bias else None
        for head in self.weight.detach().chunk(num_heads):  # over all heads the fan would be one wide layer's
            nn.init.xavier_uniform_(head)

    def by_head(self) -> tuple[Float[Tensor, "K U E"], Float[Tensor, "K U"] | None]:
        weight = self.weight.unflatten(0, (self.num_heads, -1))
        return weight, None if self.bias is None else self.bias.unflatten(0, (self.num_heads, -1))

    def forward(self, x: Float[Tensor, "K B N E"]) -> Float[Tensor, "K B N U"]:
        if self.num_heads == 1:
            return F.linear(x, self.weight, self.bias)
        weight, bias = self.by_head()
        y = x @ weight.mT[:, None]
        return y if bias is None else y + bias[:, None, None]


def gelu_inplace(x: Tensor) -> Tensor:
    """Return gelu(x), in place unless a gradient may need x, to which nothing else may refer."""
    return F.gelu(x) if torch.is_grad_enabled() or torch.compiler.is_compiling() else torch.ops.aten.gelu_(x)
