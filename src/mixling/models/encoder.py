"""A stack of blocks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from jaxtyping import Bool, Float
from pydantic import Field, model_validator
from torch import Tensor, nn

from mixling.config import Config
from mixling.mixers.base import Mixer
from mixling.models.block import Block, BlockConfig


class EncoderConfig(Config):
    """The blocks of a model."""

    dim: int = Field(64, ge=1, description="width of the token vectors")
    layers: tuple[BlockConfig, ...] = ()
    num_layers: int | None = Field(None, ge=0, description="repeat the one layer that `layers` gives")
    final_norm: bool = Field(False, description="layer norm after the last block")

    @model_validator(mode="after")
    def _check_layers(self) -> EncoderConfig:
        if self.num_layers is not None and len(self.layers) > 1:
            raise ValueError(f"num_layers repeats one layer; got {len(self.layers)} in `layers`")
        if self.num_layers and not self.layers:
            raise ValueError(f"num_layers = {self.num_layers} repeats one layer; got none in `layers`")
        return self

    @property
    def blocks(self) -> tuple[BlockConfig, ...]:
        """The layers, repeated."""
        return self.layers if self.num_layers is None else self.layers * self.num_layers


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
