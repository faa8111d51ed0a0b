"""A stack of blocks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from jaxtyping import Bool, Float
from pydantic import Field, model_validator
from torch import Tensor, nn

from mixling.config import Config
from mixling.errors import ConfigError
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

    Raises:
        ConfigError: a mixer cannot be built for this width or length, or differs in what it shares; it says which.
    """

    def __init__(self, layers: Sequence[BlockConfig], *, dim: int, max_len: int, final_norm: bool = False) -> None:
        super().__init__()
        self.layers = nn.ModuleList()
        for number, config in enumerate(layers):
            try:
                self.layers.append(Block(config, dim=dim, max_len=max_len))
            except ConfigError as error:
                raise ConfigError(f"layers.{number}.{error}") from None
        self.norm = nn.LayerNorm(dim) if final_norm else None
        self._share_positions(layers)

    def forward(self, x: Float[Tensor, "B N D"], mask: Bool[Tensor, "B N"]) -> Float[Tensor, "B N D"]:
        for layer in self.layers:
            x = layer(x, mask)
        return x if self.norm is None else self.norm(x)

    def _share_positions(self, layers: Sequence[BlockConfig]) -> None:
        first: dict[str, tuple[Mixer, dict]] = {}
        for number, (block, config) in enumerate(zip(self.layers, layers, strict=True)):
            for place, (mixer, given) in enumerate(zip(cast(Block, block).mixers, config.mixers, strict=True)):
                shared = given.shared_positions
                if shared is None:
                    continue
                owner, values = first.setdefault(given.type, (cast(Mixer, mixer), shared))
                if shared != values:
                    raise ConfigError(
                        f"layers.{number}.mixers.{place}: shares the positions of the first {given.type!r}, "
                        f"which has {values}; got {shared}"
                    )
                if owner is not mixer:
                    cast(Mixer, mixer).share_positions(owner)

    def flops(self, batch: int, length: int) -> int:
        """As `Mixer.flops`."""
        return sum(cast(Block, layer).flops(batch, length) for layer in self.layers)
