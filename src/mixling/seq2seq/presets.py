"""Models from text to text by name: T5.1.1, Remixer and its rivals, and our HyperMixer.

All have T5.1.1's layout: RMSNorm before each sublayer and after each stack, gated feed-forward, no biases of layers, a
table for both texts and one for the answers. They differ in what mixes tokens. Names that end in "10m" and "2m" have
our sizes, for one GPU and for a CPU; counts are with the vocabulary that the preset names.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from pydantic import Field

from mixling.config import Config, merge, parse, read_toml
from mixling.errors import ConfigError, near_miss
from mixling.layers.mixer import MixerConfig
from mixling.layers.positions import PositionKind, RelativePositions
from mixling.mixers.attention import AttentionConfig
from mixling.mixers.hypermixing import HyperMixingConfig
from mixling.mixers.remixing import RemixingConfig
from mixling.mixers.token_mlp import TokenMLPConfig
from mixling.models.block import BlockConfig, FeedForwardConfig
from mixling.models.encoder import StackConfig
from mixling.seq2seq.model import EncoderDecoderConfig


class Shape(Config):
    """What a family of models is scaled by.

    dropout: T5's, on the table's vectors, the output of every sublayer and stack, the feed-forward's hidden layer and
        the mixers' weights between positions.
    biases: what attention's biases by distance begin with; T5's begin at (about) zero, where training from scratch
        takes thousands of steps to look at neighbours.
    source_positions: T5's are none, and then its encoder knows distances only.
    """

    dim: int = Field(ge=1)
    ffn_dim: int = Field(ge=1)
    num_heads: int = Field(ge=1)
    head_dim: int = Field(64, ge=1)
    num_layers: int = Field(12, ge=1)
    num_decoder_layers: int = Field(12, ge=1)
    max_source_len: int = Field(512, ge=1)
    max_target_len: int = Field(512, ge=1)
    dropout: float = Field(0.0, ge=0, lt=1)
    biases: Literal["zero", "alibi"] = "zero"
    source_positions: PositionKind = "none"

    def scaled(self) -> Shape:
        """Remixer's exchange of decoder layers for encoder layers: l_E + l_D / 2 and l_D / 4 of them.

        Raises:
            ConfigError: the decoder's layers are no multiple of 4.
        """
        if self.num_decoder_layers % 4:
            raise ConfigError(f"num_decoder_layers: got {self.num_decoder_layers}; it must be a multiple of 4")
        layers = self.num_layers + self.num_decoder_layers // 2
        return self.model_copy(update={"num_layers": layers, "num_decoder_layers": self.num_decoder_layers // 4})


Family = Callable[[Shape], EncoderDecoderConfig]


def t5(shape: Shape) -> EncoderDecoderConfig:
    """T5.1.1: unscaled attention, 32 biases by distance that the layers of a stack share."""
    own = _attention(shape, relative=True)
    return _model(shape, (own,), (own,), _attention(shape))


def remixer(shape: Shape, *, matched: bool = True) -> EncoderDecoderConfig:
    """T5.1.1 with a Remixer block in place of every feed-forward (Remixer).

    Args:
        matched: the block is as wide as the feed-forward, and has L^2 + 1 more parameters, L its longest input;
            else it is the paper's equation as it stands, as wide as the tokens and with the inner residual.
    """
    own = _attention(shape, relative=True)
    block = RemixingConfig(inner_dim=shape.ffn_dim if matched else None, dropout=shape.dropout)
    return _model(shape, (own, block), (own, block), _attention(shape), ffn=False)


def scaled_remixer(shape: Shape) -> EncoderDecoderConfig:
    """The Remixer with a deeper encoder and a shallower decoder (`Shape.scaled`): 12 and 12 layers become 18 and 3."""
    return remixer(shape.scaled())


def mixer_transformer(shape: Shape) -> EncoderDecoderConfig:
    """A Mixer as the encoder, T5.1.1's decoder (Remixer, its baselines)."""
    return _model(shape, (_token_mlp(shape.max_source_len),), (_attention(shape, relative=True),), _attention(shape))


def mixer(shape: Shape, *, window: int | None = 32) -> EncoderDecoderConfig:
    """A Mixer as encoder and decoder (Remixer, its baselines).

    The paper does not define the decoder's window nor its way to the source: `TokenMLP` defines the window, attention
    reads the source.

    Args:
        window: how far back each layer of the decoder looks; None: all the way.
    """
    decoder = _token_mlp(shape.max_target_len, window)
    return _model(shape, (_token_mlp(shape.max_source_len),), (decoder,), _attention(shape))


def hypermixer(shape: Shape) -> EncoderDecoderConfig:
    """HyperMixing in all three places, linear in both lengths: ours, where the paper leaves decoders to future work.

    The encoder's and the one that reads the source are HyperMixer's, tied, with 3 D hidden units: as many parameters
    as attention of D / 64 heads has. The causal one has heads (HyperConformer's), which have weights of their own, and,
    untied, D hidden units: as its state of H D / K numbers is made anew at each position, that takes a third of the
    time. With few heads it has fewer parameters than attention: models of one name and size are of like size only.
    """
    own = HyperMixingConfig(hidden_dim=3 * shape.dim)
    causal = HyperMixingConfig(hidden_dim=shape.dim, tied=False, num_heads=math.gcd(shape.dim, shape.num_heads))
    return _model(shape, (own,), (causal,), own)


def _attention(shape: Shape, *, relative: bool = False) -> AttentionConfig:
    return AttentionConfig(
        num_heads=shape.num_heads,
        head_dim=shape.head_dim,
        bias=False,
        scale=False,
        dropout=shape.dropout,
        positions=RelativePositions(num_buckets=32, shared=True, start=shape.biases) if relative else None,
    )


def _token_mlp(max_len: int, window: int | None = None) -> TokenMLPConfig:
    """With a hidden unit for each position: the paper gives no width, and the causal form needs as many."""
    return TokenMLPConfig(hidden_dim=max_len, window=window)


def _model(
    shape: Shape,
    encoder: tuple[MixerConfig, ...],
    decoder: tuple[MixerConfig, ...],
    cross: MixerConfig,
    *,
    ffn: bool = True,
) -> EncoderDecoderConfig:
    options: dict[str, Any] = {"norm_type": "rms", "dropout": shape.dropout}
    if ffn:
        options["feed_forward"] = FeedForwardConfig(
            type="gated", ffn_dim=shape.ffn_dim, bias=False, dropout=shape.dropout
        )
    reader = BlockConfig(mixers=encoder, **options)
    writer = BlockConfig(mixers=decoder, cross=cross, cross_after=1, **options)
    return EncoderDecoderConfig(
        dim=shape.dim,
        max_source_len=shape.max_source_len,
        max_target_len=shape.max_target_len,
        source_positions=shape.source_positions,
        encoder=StackConfig(layers=(reader,), num_layers=shape.num_layers, final_norm=True),
        decoder=StackConfig(layers=(writer,), num_layers=shape.num_decoder_layers, final_norm=True),
        dropout=shape.dropout,
    )


@dataclass(frozen=True)
class Seq2SeqPreset:
    """A model by name; `vocabulary` is the number of subwords that its parameters are counted with."""

    family: Family
    shape: Shape
    source: str
    vocabulary: int

    @property
    def config(self) -> EncoderDecoderConfig:
        """The model as it is named."""
        return self.family(self.shape)


BASE = Shape(dim=768, ffn_dim=2048, num_heads=12)
SMALL = Shape(dim=512, ffn_dim=1024, num_heads=6, num_layers=8, num_decoder_layers=8)
TEN = Shape(
    dim=256,
    ffn_dim=1024,
    num_heads=4,
    num_layers=4,
    num_decoder_layers=4,
    max_source_len=128,
    max_target_len=128,
    biases="alibi",
)
CPU = Shape(**{**TEN.to_dict(), "dim": 128, "ffn_dim": 320, "head_dim": 32})
_REMIXER = "Remixer"
_FAMILIES: dict[str, tuple[Family, str]] = {
    "remixer": (remixer, _REMIXER),
    "remixer-scaled": (scaled_remixer, _REMIXER),
    "mixer-transformer": (mixer_transformer, _REMIXER),
    "mixer-mixer": (mixer, _REMIXER),
    "hypermixer-hypermixer": (hypermixer, "ours"),
}

SEQ2SEQ_PRESETS: dict[str, Seq2SeqPreset] = {
    "t5-1.1-base": Seq2SeqPreset(t5, BASE, "T5.1.1", 32_128),
    "t5-1.1-small": Seq2SeqPreset(t5, SMALL, "T5.1.1", 32_128),
    "remixer-literal-base": Seq2SeqPreset(partial(remixer, matched=False), BASE, _REMIXER, 32_128),
    **{f"{name}-base": Seq2SeqPreset(family, BASE, source, 32_128) for name, (family, source) in _FAMILIES.items()},
    **{f"{name}-small": Seq2SeqPreset(family, SMALL, source, 32_128) for name, (family, source) in _FAMILIES.items()},
    **{
        f"{name}-{size}": Seq2SeqPreset(family, shape, "ours", 1_000)
        for size, shape in (("10m", TEN), ("2m", CPU))
        for name, family in {"t5": t5, **{name: family for name, (family, _) in _FAMILIES.items()}}.items()
    },
}


def seq2seq_config(name: str, changes: dict | None = None, **sizes: Any) -> EncoderDecoderConfig:
    """The configuration of a preset.

    Args:
        changes: nested values laid over it, such as `{"tied": True}`.
        sizes: other values of its `Shape`, such as `dropout=0.1` or `max_source_len=64`: they reach every layer.

    Raises:
        ConfigError: unknown preset, size or key.
    """
    if name not in SEQ2SEQ_PRESETS:
        raise ConfigError(f"unknown preset {name!r}; {near_miss(name, SEQ2SEQ_PRESETS)}")
    preset, where = SEQ2SEQ_PRESETS[name], f"model {name!r}"
    config = preset.family(parse(Shape, preset.shape.to_dict() | sizes, where=where))
    return parse(EncoderDecoderConfig, merge(config.to_dict(), changes or {}), where=where)


def seq2seq_with_changes(given: str | Mapping[str, Any], changes: Mapping[str, Any]) -> EncoderDecoderConfig:
    """A model by name, TOML file or table (either may name a preset), with changes laid over it.

    Keys of `Shape` reach every layer of a preset; others are laid over what comes of it.

    Raises:
        ConfigError: unknown preset, file, size or key.
    """
    where = "model"
    if isinstance(given, str):
        where, given = given, read_toml(given) if given.endswith(".toml") else {"preset": given}
    table = merge(given, changes)
    name = str(table.pop("preset", ""))
    if not name:
        return parse(EncoderDecoderConfig, table, where=where)
    sizes = {key: table.pop(key) for key in tuple(table) if key in Shape.model_fields}
    return seq2seq_config(name, table, **sizes)


def with_dropout(model: Mapping[str, Any], fraction: float) -> dict[str, Any]:
    """A model's configuration as a dictionary, with this dropout in all the places that `Shape.dropout` reaches."""

    def changed(value: Any, key: str = "") -> Any:
        if isinstance(value, Mapping):
            return {name: changed(item, name) for name, item in value.items()}
        if isinstance(value, list | tuple):
            return [changed(item) for item in value]
        return fraction if key == "dropout" else value

    whole: dict[str, Any] = changed(model)
    return whole
