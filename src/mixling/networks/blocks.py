"""The configurations of blocks: mixers and feed-forwards, one after another."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, SerializeAsAny, field_validator, model_validator

from mixling.config import Config
from mixling.errors import ConfigError
from mixling.networks.mixer import MixerConfig, mixer_config

NormType = Literal["layer", "rms", "affine"]
PositionKind = Literal["none", "sinusoidal", "learned"]


class FeedForwardConfig(Config):
    """The MLP over channels: W2 gelu(W1 x), or the gated one of T5.1.1, W2 (gelu(W1 x) * V x)."""

    type: Literal["mlp", "gated"] = "mlp"
    ffn_dim: int = Field(default=256, ge=1, description="hidden width")
    bias: bool = Field(default=True, description="of its linear layers; T5 has none")
    dropout: float = Field(default=0.0, ge=0, lt=1, description="on the hidden layer")


class BlockConfig(Config):
    """Mixers in order, and optionally a feed-forward."""

    mixers: tuple[SerializeAsAny[MixerConfig], ...] = Field(default=(), description="the mixers, in order")
    feed_forward: FeedForwardConfig | None = None
    norm: Literal["pre", "post"] = Field(
        default="pre", description="norm before each sublayer, or after its residual connection"
    )
    norm_type: NormType = Field(default="layer", description="kind of norm")
    dropout: float = Field(default=0.0, ge=0, lt=1, description="on each sublayer's output, before it is added")

    @field_validator("mixers", mode="before")
    @classmethod
    def _read_mixers(cls, values: Any) -> Any:
        if not isinstance(values, list | tuple):
            return values
        out = []
        for number, item in enumerate(values):
            try:
                out.append(mixer_config(item))
            except ConfigError as error:  # the outer error names the layer
                raise ValueError("\n".join(f"{number}: {line}" for line in str(error).splitlines())) from None
        return tuple(out)


class StackConfig(Config):
    """Blocks one after another."""

    layers: tuple[BlockConfig, ...] = Field(default=(), max_length=1_000)
    num_layers: int | None = Field(default=None, ge=0, le=1_000, description="repeat the one layer that `layers` gives")
    final_norm: bool = Field(default=False, description="a norm after the last block, of the same type")

    @model_validator(mode="after")
    def _check_layers(self) -> StackConfig:
        if self.num_layers is not None and len(self.layers) > 1:
            raise ValueError(f"num_layers repeats one layer; got {len(self.layers)} in `layers`")
        if self.num_layers and not self.layers:
            raise ValueError(f"num_layers = {self.num_layers} repeats one layer; got none in `layers`")
        return self

    @property
    def blocks(self) -> tuple[BlockConfig, ...]:
        """Return the configurations of all layers, repeated as `num_layers` requires."""
        return self.layers if self.num_layers is None else self.layers * self.num_layers


class EncoderConfig(StackConfig):
    """The blocks of a model."""

    dim: int = Field(default=64, ge=1, description="width of the token vectors")
