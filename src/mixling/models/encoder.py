"""A stack of blocks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from jaxtyping import Bool, Float
from torch import Tensor, nn

from mixling.mixers.base import Mixer
from mixling.models.block import Block, BlockConfig


class Encoder(nn.Module):
    """Blocks one after another; a norm after the last is an option, which pNLP-Mixer's and gMLP's counts rule out.

    Mixers whose configuration says so use the position parameters of the first of their kind (T5).
    """

    def __init__(self, layers: Sequence[BlockConfig], *, dim: int, max_len: int, final_norm: bool = False) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Block(config, dim=dim, max_len=max_len) for config in layers)
        self.norm = nn.LayerNorm(dim) if final_norm else None
        first: dict[str, Mixer] = {}
        for block, config in zip(self.layers, layers, strict=True):
            for mixer, given in zip(cast(Block, block).mixers, config.mixers, strict=True):
                if given.shares_positions and first.setdefault(given.type, cast(Mixer, mixer)) is not mixer:
                    cast(Mixer, mixer).share_positions(first[given.type])

    def forward(self, x: Float[Tensor, "B N D"], mask: Bool[Tensor, "B N"]) -> Float[Tensor, "B N D"]:
        for layer in self.layers:
            x = layer(x, mask)
        return x if self.norm is None else self.norm(x)

    def flops(self, batch: int, length: int) -> int:
        """As `Mixer.flops`."""
        return sum(cast(Block, layer).flops(batch, length) for layer in self.layers)
