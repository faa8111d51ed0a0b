"""The heads of attention and of its relatives."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor, nn


def split_heads(x: Float[Tensor, "B N I"], num_heads: int) -> Float[Tensor, "B H N E"]:
    """Return for each head its part of the channels, E = I / H."""
    heads: Tensor = x.unflatten(-1, (num_heads, -1)).transpose(1, 2)
    return heads


def init_xavier(*layers: nn.Linear) -> None:
    """Start linear layers with Xavier's uniform weights and biases of zero."""
    for layer in layers:
        nn.init.xavier_uniform_(layer.weight)
        if layer.bias is not None:
            nn.init.zeros_(layer.bias)
