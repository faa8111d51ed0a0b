"""Text-to-text models by name: T5.1.1, Remixer and its baselines, and a HyperMixer encoder-decoder.

All have T5.1.1's layout: RMSNorm before each sublayer and after each stack, gated feed-forward, layers without bias,
one embedding table for both texts and a separate output table. They differ in their mixers. Names ending in "10m" and
"2m" have mixling's own sizes, for one GPU and for a CPU, counted with the vocabulary size of the preset.
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
from mixling.layers.positions import RelativePositions
from mixling.mixers.attention import AttentionConfig
from mixling.mixers.hypermixing import HyperMixingConfig
from mixling.mixers.pooling import PoolingConfig
from mixling.mixers.recurrent import RecurrentConfig
from mixling.mixers.remixing import RemixingConfig
from mixling.models.block import DeepBlockConfig, DeepStackConfig
from mixling.networks.blocks import FeedForwardConfig, PositionKind
from mixling.networks.mixer import MixerConfig
from mixling.networks.mixers import TokenMLPConfig
from mixling.research.seq2seq.model import EncoderDecoderConfig


class Shape(Config):
    """The sizes and options of a family of models.

    Attributes:
        dropout: as in T5, on embeddings, on the output of every sublayer and stack, on the feed-forward's hidden layer
            and on mixing weights.
        mixing_dropout: dropout on the Remixer's softmax(H) (0, 0.1 and 0.2 in the paper); None: `dropout`.
        biases: initialization of attention's relative biases. T5's are (about) zero, and training from scratch then
            needs thousands of steps to learn to attend to neighbors.
        source_positions: position embeddings of the source; T5 has none, so that its encoder knows distances only.
    """

    dim: int = Field(ge=1)
    ffn_dim: int = Field(ge=1)
    num_heads: int = Field(ge=1)
    head_dim: int = Field(default=64, ge=1)
    num_layers: int = Field(default=12, ge=1)
    num_decoder_layers: int = Field(default=12, ge=1)
    max_source_len: int = Field(default=512, ge=1)
    max_target_len: int = Field(default=512, ge=1)
    dropout: float = Field(default=0.0, ge=0, lt=1)
    mixing_dropout: float | None = Field(default=None, ge=0, lt=1)
    biases: Literal["zero", "alibi"] = "zero"
    source_positions: PositionKind = "none"

    def scaled(self) -> Shape:
        """Return the shape with Remixer's deeper encoder and shallower decoder: l_E + l_D / 2 and l_D / 4 layers.

        Raises:
            ConfigError: the number of decoder layers is not a multiple of 4.
        """
        if self.num_decoder_layers % 4:
            raise ConfigError(f"num_decoder_layers: got {self.num_decoder_layers}; it must be a multiple of 4")
        layers = self.num_layers + self.num_decoder_layers // 2
        return self.model_copy(update={"num_layers": layers, "num_decoder_layers": self.num_decoder_layers // 4})


Family = Callable[[Shape], EncoderDecoderConfig]


def t5(shape: Shape) -> EncoderDecoderConfig:
    """Return T5.1.1: unscaled attention, 32 relative biases shared by the layers of a stack."""
    own = _attention(shape, relative=True)
    return _model(shape, (own,), (own,), _attention(shape))


def remixer(shape: Shape, *, matched: bool = True) -> EncoderDecoderConfig:
    """Return T5.1.1 with a Remixer block instead of every feed-forward (Remixer).

    Args:
        matched: the block is as wide as the feed-forward, with L^2 + 1 additional parameters for a maximum length L;
            else it is literally the paper's equation, as wide as the tokens and with the inner residual.
    """
    own = _attention(shape, relative=True)
    dropout = shape.dropout if shape.mixing_dropout is None else shape.mixing_dropout
    block = RemixingConfig(inner_dim=shape.ffn_dim if matched else None, dropout=dropout)
    return _model(shape, (own, block), (own, block), _attention(shape), ffn=False)


def scaled_remixer(shape: Shape) -> EncoderDecoderConfig:
    """Return the Remixer with a deeper encoder and a shallower decoder: 12 and 12 layers become 18 and 3."""
    return remixer(shape.scaled())


def mixer_transformer(shape: Shape) -> EncoderDecoderConfig:
    """Return an MLP-Mixer encoder with T5.1.1's decoder (a baseline of Remixer)."""
    return _model(shape, (_token_mlp(shape.max_source_len),), (_attention(shape, relative=True),), _attention(shape))


def mixer(shape: Shape, *, window: int | None = 32) -> EncoderDecoderConfig:
    """Return an MLP-Mixer as encoder and decoder (a baseline of Remixer).

    The paper defines neither the decoder's window nor how it reads the source; here see `TokenMLP` for the window, and
    attention reads the source.

    Args:
        window: number of previous tokens that a layer of the decoder sees; None: all.
    """
    decoder = _token_mlp(shape.max_target_len, window)
    return _model(shape, (_token_mlp(shape.max_source_len),), (decoder,), _attention(shape))


def hypermixer(shape: Shape) -> EncoderDecoderConfig:
    """Return HyperMixing as encoder, decoder and cross mixer, linear in both lengths; the paper has no decoder.

    Encoder and cross mixer are HyperMixer's, tied, with 3 D hidden units: as many parameters as attention with D / 64
    heads. The causal mixer has heads (as HyperConformer) with separate weights and, untied, D hidden units, which takes
    a third of the time, because its state of H D / K numbers is recomputed at each position. With few heads it has
    fewer parameters than attention, so that models of the same size label are only of similar size.
    """
    own = HyperMixingConfig(hidden_dim=3 * shape.dim)
    causal = HyperMixingConfig(hidden_dim=shape.dim, tied=False, num_heads=math.gcd(shape.dim, shape.num_heads))
    return _model(shape, (own,), (causal,), own)


def lstm(shape: Shape, *, bidirectional: bool = False) -> EncoderDecoderConfig:
    """Return LSTMs as encoder and decoder, whose attention reads the source (baselines of Remixer's Table 4).

    Their sizes are not in the paper: here an LSTM as wide as the tokens replaces each self-attention of T5.1.1.

    Args:
        bidirectional: the encoder also reads backwards, each direction with half of the units.
    """
    units = shape.dim // 2 if bidirectional else shape.dim
    encoder = RecurrentConfig(cell="lstm", hidden_dim=units, bidirectional=bidirectional)
    decoder = RecurrentConfig(cell="lstm", hidden_dim=shape.dim, bidirectional=False)
    return _model(shape, (encoder,), (decoder,), _attention(shape))


def bag_of_words(shape: Shape) -> EncoderDecoderConfig:
    """Return an encoder whose only mixing is the mean of all tokens, with T5.1.1's decoder (Remixer's CBoW)."""
    return _model(shape, (PoolingConfig(),), (_attention(shape, relative=True),), _attention(shape))


def _attention(shape: Shape, *, relative: bool = False) -> AttentionConfig:
    return AttentionConfig(
        num_heads=shape.num_heads,
        head_dim=shape.head_dim,
        bias=False,
        scale=False,
        dropout=shape.dropout,
        positions=RelativePositions(num_buckets=32, shared=True, init=shape.biases) if relative else None,
    )


def _token_mlp(max_len: int, window: int | None = None) -> TokenMLPConfig:
    """Return a token MLP with a hidden unit per position: the paper gives no width, and causal mixing needs as many."""
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
    reader = DeepBlockConfig(mixers=encoder, **options)
    writer = DeepBlockConfig(mixers=decoder, cross=cross, cross_after=1, **options)
    return EncoderDecoderConfig(
        dim=shape.dim,
        max_source_len=shape.max_source_len,
        max_target_len=shape.max_target_len,
        source_positions=shape.source_positions,
        encoder=DeepStackConfig(layers=(reader,), num_layers=shape.num_layers, final_norm=True),
        decoder=DeepStackConfig(layers=(writer,), num_layers=shape.num_decoder_layers, final_norm=True),
        dropout=shape.dropout,
    )


@dataclass(frozen=True)
class Seq2SeqPreset:
    """A named model; `vocabulary` is the number of subwords with which its parameters are counted."""

    family: Family
    shape: Shape
    source: str
    vocabulary: int

    @property
    def config(self) -> EncoderDecoderConfig:
        """The configuration of the model."""
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
    "hypermixer-hypermixer": (hypermixer, "mixling"),
}

SEQ2SEQ_PRESETS: dict[str, Seq2SeqPreset] = {
    "t5-1.1-base": Seq2SeqPreset(t5, BASE, "T5.1.1", 32_128),
    "t5-1.1-small": Seq2SeqPreset(t5, SMALL, "T5.1.1", 32_128),
    "remixer-literal-base": Seq2SeqPreset(partial(remixer, matched=False), BASE, _REMIXER, 32_128),
    **{f"{name}-base": Seq2SeqPreset(family, BASE, source, 32_128) for name, (family, source) in _FAMILIES.items()},
    **{f"{name}-small": Seq2SeqPreset(family, SMALL, source, 32_128) for name, (family, source) in _FAMILIES.items()},
    **{
        f"{name}-{size}": Seq2SeqPreset(family, shape, "mixling", 1_000)
        for size, shape in (("10m", TEN), ("2m", CPU))
        for name, family in {"t5": t5, **{name: family for name, (family, _) in _FAMILIES.items()}}.items()
    },
}


def seq2seq_config(name: str, changes: dict[str, Any] | None = None, **sizes: Any) -> EncoderDecoderConfig:
    """Return the configuration of a preset.

    Args:
        changes: nested values that override it, such as `{"tied": True}`.
        sizes: values of its `Shape`, such as `dropout=0.1` or `max_source_len=64`, which apply to every layer.

    Raises:
        ConfigError: a preset, size or key is unknown.
    """
    if name not in SEQ2SEQ_PRESETS:
        raise ConfigError(f"unknown preset {name!r}; {near_miss(name, SEQ2SEQ_PRESETS)}")
    preset = SEQ2SEQ_PRESETS[name]
    config = preset.family(parse(Shape, preset.shape.to_dict() | sizes, where="model"))
    return config.with_changes(changes or {}, where="model")


def seq2seq_with_changes(given: str | Mapping[str, Any], changes: Mapping[str, Any]) -> EncoderDecoderConfig:
    """Return the configuration of a model given by name, TOML file or table, with changes applied.

    Files and tables may name a preset. Keys of `Shape` apply to every layer of it; others override its configuration.

    Raises:
        ConfigError: a preset, file, size or key is unknown.
    """
    where = "model"
    if isinstance(given, str):
        where = given
        given = read_toml(given) if given.endswith(".toml") else {"preset": given}
    table = merge(given, changes)
    name = str(table.pop("preset", ""))
    if not name:
        return parse(EncoderDecoderConfig, table, where=where)
    sizes = {key: table.pop(key) for key in tuple(table) if key in Shape.model_fields}
    return seq2seq_config(name, table, **sizes)


def with_dropout(model: Mapping[str, Any], fraction: float) -> dict[str, Any]:
    """Return a model's configuration with this dropout wherever `Shape.dropout` applies."""

    def changed(value: Any, key: str = "") -> Any:
        if isinstance(value, Mapping):
            return {name: changed(item, name) for name, item in value.items()}
        if isinstance(value, list | tuple):
            return [changed(item) for item in value]
        return fraction if key == "dropout" else value

    out: dict[str, Any] = changed(model)
    return out
