"""A stack of blocks."""

from __future__ import annotations

from collections.abc import Sequence

from jaxtyping import Bool, Float
from torch import Tensor, nn

from mixling.models.block import Block, BlockConfig


class Encoder(nn.Module):
    """Blocks one after another, without a final norm (pNLP-Mixer's counts require that)."""

    def __init__(self, layers: Sequence[BlockConfig], *, dim: int, max_len: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Block(config, dim=dim, max_len=max_len) for config in layers)

    def forward(self, x: Float[Tensor, "B N D"], mask: Bool[Tensor, "B N"]) -> Float[Tensor, "B N D"]:
        for layer in self.layers:
            x = layer(x, mask)
        return x
