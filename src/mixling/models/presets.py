"""Presets: the models of the papers, and mixling's own, by name.

An embedding table is as large as the vocabulary, which by default is trained on the user's own text;
`Preset.vocabulary` is the size in the paper's parameter counts.

Two widths printed in gMLP contradict its parameter counts: with 3072, the models of Table 3 without a split would have
130 million parameters, not 92 (which 2048 gives), and its text MLP-Mixer 140.4 million, not 112 (which 2304 gives).
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeVar

from mixling.config import Config, merge, parse, read_toml
from mixling.errors import ConfigError, near_miss
from mixling.layers.mixer import MixerConfig
from mixling.layers.positions import PositionKind, RelativePositions
from mixling.mixers.attention import AttentionConfig
from mixling.mixers.fourier import FourierConfig
from mixling.mixers.hypermixing import HyperMixingConfig
from mixling.mixers.linear_attention import LinearAttentionConfig
from mixling.mixers.recurrent import RecurrentConfig
from mixling.mixers.spatial_gating import SpatialGatingConfig
from mixling.mixers.synthesizer import SynthesizerConfig
from mixling.mixers.token_mlp import TokenMLPConfig
from mixling.models.block import BlockConfig, FeedForwardConfig
from mixling.models.embedding import EmbeddingConfig
from mixling.models.heads import HeadConfig
from mixling.models.model import ModelConfig
from mixling.text.config import TextConfig
from mixling.text.fingerprint import MinHash, SubwordEmbedding, Tsp

_C = TypeVar("_C", bound=Config)

WORDS_AS_THEY_ARE: Mapping[str, Any] = {"augmentation": {"pseudo_words": 0.0, "typos": 0.0}}


@dataclass(frozen=True)
class Preset:
    """A named model.

    Args:
        config: the model.
        source: paper and section.
        vocabulary: rows of the embedding table in the paper's parameter counts; None: there is no table.
        defaults: values of a `RunConfig` that go with the model. The papers' models are trained on the words as they
            are, as in the papers: misspelled or made-up words have more subwords, so that an epoch of gMLP takes 1.6
            times as long.
        use: when to use it, for `mixling models`; "" for the papers' models.
    """

    config: ModelConfig
    source: str
    vocabulary: int | None = None
    defaults: dict[str, Any] = field(default_factory=lambda: {"train": WORDS_AS_THEY_ARE})
    use: str = ""


def pnlp_mixer(*, num_features: int, window: int, dim: int, num_layers: int) -> ModelConfig:
    """Return a pNLP-Mixer (section 4.1 and Table 5): 64 hashes, 64 words, hidden width 256 in both MLPs."""
    layer = _layer(TokenMLPConfig(hidden_dim=256), 256)
    return ModelConfig(
        text=TextConfig(projection=MinHash(num_features=num_features, num_hashes=64), max_len=64),
        embedding=EmbeddingConfig(window=window),
        dim=dim,
        layers=(layer,) if num_layers else (),
        num_layers=num_layers,
    )


def own(*, num_features: int, dim: int, ffn_dim: int, mixer: MixerConfig | None = None, **options: Any) -> ModelConfig:
    """Return mixling's own small model: hashed words, a factorized window, channel MLPs, three pools.

    A quarter of a word's hashes are of its letters in any order, which a word keeps where two of them are swapped.
    To label texts it has one layer without token mixing, which lowers accuracy with few examples; to label words, and
    pairs of texts with many examples, it needs two layers with token mixing (experiments/README.md).
    """
    mixers = () if mixer is None else (mixer,)
    return ModelConfig(
        text=TextConfig(
            projection=MinHash(num_features=num_features, num_hashes=48, letter_hashes=16),
            max_len=128,
            contractions=True,
        ),
        embedding=EmbeddingConfig(window=1, window_type="factorized"),
        dim=dim,
        layers=(BlockConfig(mixers=mixers, feed_forward=FeedForwardConfig(ffn_dim=ffn_dim)),),
        head=HeadConfig(pooling="all", transitions=True),
        **options,
    )


def _layer(mixer: MixerConfig, ffn_dim: int | None, **options: Any) -> BlockConfig:
    feed_forward = None if ffn_dim is None else FeedForwardConfig(ffn_dim=ffn_dim)
    return BlockConfig(mixers=(mixer,), feed_forward=feed_forward, **options)


def _on_subwords(
    layer: BlockConfig,
    *,
    dim: int,
    num_layers: int,
    max_len: int,
    positions: PositionKind = "none",
    final_norm: bool = False,
    bert: bool = False,
) -> ModelConfig:
    """Return an encoder over an embedding table of subwords; BERT adds segments, and a norm before the first layer."""
    return ModelConfig(
        text=TextConfig(projection=SubwordEmbedding(), tokens="subwords", max_len=max_len, segments=bert),
        embedding=EmbeddingConfig(bias=False, positions=positions, norm=bert),
        dim=dim,
        layers=(layer,),
        num_layers=num_layers,
        final_norm=final_norm,
        head=HeadConfig(pooling="mean"),
    )


def gmlp(*, num_layers: int, dim: int = 512, ffn_dim: int = 3072, max_len: int = 128, **options: Any) -> ModelConfig:
    """Return a gMLP, or with `tiny_attention_dim` an aMLP (sections 2 and 4), without positions or a final norm."""
    layer = _layer(SpatialGatingConfig(ffn_dim=ffn_dim, **options), None)
    return _on_subwords(layer, dim=dim, num_layers=num_layers, max_len=max_len)


def bert(
    mixer: MixerConfig, *, num_layers: int = 12, dim: int = 768, max_len: int = 128, positions: PositionKind = "none"
) -> ModelConfig:
    """Return a BERT (gMLP, section 4.1): post-norm, segments; with learned positions, or biases in the mixer."""
    layer = _layer(mixer, 4 * dim, norm="post")
    return _on_subwords(layer, dim=dim, num_layers=num_layers, max_len=max_len, positions=positions, bert=True)


def hypermixer_family(
    mixer: MixerConfig,
    ffn_dim: int | None = 512,
    positions: PositionKind = "none",
    norm: Literal["pre", "post"] = "pre",
) -> ModelConfig:
    """Return one of the models of 11 million parameters that HyperMixer compares (section 4.1).

    It has 6 layers of width 256 and 30,522 subwords. The paper's layout is in an appendix that was not available;
    this one has its parameter count. Mixers with fewer parameters than attention's 4 (D^2 + D) get a wider
    feed-forward.
    """
    layer = _layer(mixer, ffn_dim, norm=norm)
    return _on_subwords(layer, dim=256, num_layers=6, max_len=128, positions=positions, final_norm=norm == "pre")


_OWN = "mixling"
_TO_PRETRAIN = "pretraining in hours of two cores"
_OWN_DEFAULTS = {"init": {"training_texts": True}, "ngrams": {"use": "auto"}}
_TABLE_5 = "pNLP-Mixer, Table 5"
_BASELINE = "pNLP-Mixer, section 4.3"
_BASE = pnlp_mixer(num_features=1024, window=1, dim=256, num_layers=0)
_HYPERMIXER = "HyperMixer, section 4.1"


def _pnlp_baseline(layer: BlockConfig) -> ModelConfig:
    """Return a model with pNLP-Mixer BASE's embedding layer and one layer of another mixer."""
    return _BASE.model_copy(update={"layers": (layer,), "num_layers": 1})


PRESETS: dict[str, Preset] = {
    "mixling-tiny": Preset(
        own(num_features=2048, dim=32, ffn_dim=128),
        _OWN,
        defaults=_OWN_DEFAULTS,
        use="texts, where every kilobyte counts",
    ),
    "mixling-small": Preset(
        own(num_features=4096, dim=64, ffn_dim=256), _OWN, defaults=_OWN_DEFAULTS, use="texts, the default"
    ),
    "mixling-mixer": Preset(
        own(num_features=4096, dim=64, ffn_dim=256, mixer=TokenMLPConfig(hidden_dim=256), num_layers=2),
        _OWN,
        defaults=_OWN_DEFAULTS,
        use="words to tag, many pairs of texts",
    ),
    "mixling-base": Preset(
        own(num_features=5120, dim=128, ffn_dim=256),
        _OWN,
        defaults=_OWN_DEFAULTS,
        use="texts, with many examples or labels",
    ),
    "pnlp-mixer-x-large": Preset(pnlp_mixer(num_features=2048, window=1, dim=512, num_layers=4), _TABLE_5),
    "pnlp-mixer-large": Preset(pnlp_mixer(num_features=2048, window=1, dim=256, num_layers=4), _TABLE_5),
    "pnlp-mixer-base": Preset(pnlp_mixer(num_features=1024, window=1, dim=256, num_layers=2), _TABLE_5),
    "pnlp-mixer-small": Preset(pnlp_mixer(num_features=1024, window=0, dim=256, num_layers=2), _TABLE_5),
    "pnlp-mixer-x-small": Preset(pnlp_mixer(num_features=1024, window=0, dim=64, num_layers=2), _TABLE_5),
    "projection-only": Preset(_BASE, _BASELINE),
    "projection-only-w4": Preset(pnlp_mixer(num_features=1024, window=4, dim=256, num_layers=0), _BASELINE),
    "pnlp-transformer": Preset(_pnlp_baseline(_layer(AttentionConfig(num_heads=4), 256)), _BASELINE),
    "pnlp-lstm": Preset(_pnlp_baseline(_layer(RecurrentConfig(cell="lstm", hidden_dim=128), None)), _BASELINE),
    # pQRNN's ternary features and two bidirectional QRNN layers; its other sizes are not published.
    "pqrnn": Preset(
        ModelConfig(
            text=TextConfig(projection=Tsp(num_features=1024), max_len=64),
            dim=256,
            layers=(_layer(RecurrentConfig(cell="qrnn", hidden_dim=128, num_layers=2), None),),
        ),
        "pQRNN (Kaliamoorthi et al. 2021)",
    ),
    **{f"gmlp-{layers}": Preset(gmlp(num_layers=layers), "gMLP, Table 4", 32_000) for layers in (18, 36, 72, 144)},
    "gmlp-base": Preset(gmlp(num_layers=48, max_len=512), "gMLP, Table 5", 32_000),
    "gmlp-large": Preset(gmlp(num_layers=96, dim=768, max_len=512), "gMLP, Table 5", 32_000),
    "gmlp-x-large": Preset(gmlp(num_layers=144, dim=1024, ffn_dim=4096, max_len=512), "gMLP, Table 5", 32_000),
    "amlp-base": Preset(gmlp(num_layers=36, max_len=512, tiny_attention_dim=64), "gMLP, Table 5", 32_000),
    "amlp-large": Preset(gmlp(num_layers=72, dim=768, max_len=512, tiny_attention_dim=128), "gMLP, Table 5", 32_000),
    **{
        f"gmlp-36-{variant}": Preset(gmlp(num_layers=36, ffn_dim=2048, variant=variant), "gMLP, Table 3", 32_000)
        for variant in ("linear", "additive", "multiplicative")
    },
    "mlp-mixer-text": Preset(
        _on_subwords(_layer(TokenMLPConfig(hidden_dim=384), 2304), dim=768, num_layers=24, max_len=128),
        "gMLP, Table 3",
        32_000,
    ),
    "bert-base": Preset(bert(AttentionConfig(num_heads=12), positions="learned"), "gMLP, Table 3", 32_000),
    "bert-large": Preset(
        bert(AttentionConfig(num_heads=16), num_layers=24, dim=1024, max_len=512, positions="learned"),
        "gMLP, Table 5",
        32_000,
    ),
    "bert-base-content-free": Preset(bert(SynthesizerConfig(num_heads=12)), "gMLP, Table 3", 32_000),
    **{
        f"bert-{layers}-relative": Preset(
            bert(AttentionConfig(num_heads=12, positions=RelativePositions()), num_layers=layers),
            "gMLP, Table 4",
            32_000,
        )
        for layers in (6, 12, 24, 48)
    },
    # Deep and thin: beside bert-12-relative, of about as many parameters.
    **{
        f"bert-{layers}-{dim}": Preset(
            bert(AttentionConfig(num_heads=dim // 64, positions=RelativePositions()), num_layers=layers, dim=dim),
            "gMLP, Table 10",
            32_000,
        )
        for layers, dim in ((24, 512), (48, 384), (96, 256))
    },
    # Trainable in hours on two cores; eight layers of gMLP, six of aMLP and six of BERT have equally many parameters.
    "gmlp-tiny": Preset(gmlp(num_layers=8, dim=128, ffn_dim=768), _OWN, 8192, use=_TO_PRETRAIN),
    "amlp-tiny": Preset(gmlp(num_layers=6, dim=128, ffn_dim=768, tiny_attention_dim=64), _OWN, 8192, use=_TO_PRETRAIN),
    "bert-tiny": Preset(
        bert(AttentionConfig(num_heads=4, positions=RelativePositions()), num_layers=6, dim=128),
        _OWN,
        8192,
        use=_TO_PRETRAIN,
    ),
    "hypermixer": Preset(hypermixer_family(HyperMixingConfig(hidden_dim=768)), _HYPERMIXER, 30_522),
    "hypermixer-untied": Preset(hypermixer_family(HyperMixingConfig(hidden_dim=256, tied=False)), _HYPERMIXER, 30_522),
    "transformer": Preset(hypermixer_family(AttentionConfig(num_heads=4), positions="sinusoidal"), _HYPERMIXER, 30_522),
    "linear-transformer": Preset(
        hypermixer_family(LinearAttentionConfig(num_heads=4), positions="sinusoidal"), _HYPERMIXER, 30_522
    ),
    # The transform is sqrt(N D) times as large as its input, which only post-norm, as in FNet, can handle.
    "fnet": Preset(
        hypermixer_family(FourierConfig(), ffn_dim=1025, positions="sinusoidal", norm="post"), _HYPERMIXER, 30_522
    ),
    # With the feed-forward that the others have; FNet then has 1.6 million parameters fewer.
    "fnet-512": Preset(hypermixer_family(FourierConfig(), positions="sinusoidal", norm="post"), _HYPERMIXER, 30_522),
    "gmlp-512": Preset(hypermixer_family(SpatialGatingConfig(ffn_dim=680)), _HYPERMIXER, 30_522),
    "mlp-mixer": Preset(hypermixer_family(TokenMLPConfig(hidden_dim=1023)), _HYPERMIXER, 30_522),
    "gmlp": Preset(hypermixer_family(SpatialGatingConfig(ffn_dim=1362), None), _HYPERMIXER, 30_522),
}
# The presets of other packages, imported only to name them in messages.
_ELSEWHERE = {
    "mixling.research.vision:IMAGE_PRESETS": "a model of images; `mixling train --task image_classification` trains "
    "it, and `mixling models` lists those for text",
    "mixling.research.seq2seq.presets:SEQ2SEQ_PRESETS": "a model from text to text; `mixling train --task text2text` "
    "trains it, and `mixling models` lists those for labels",
}
DEFAULT_PRESET = "pnlp-mixer-x-small"


def preset_values(name: str) -> dict[str, Any]:
    """Return a preset's defaults for a run; for a TOML file, the defaults of the preset it starts from.

    Raises:
        ConfigError: the file cannot be read.
    """
    if name.endswith(".toml"):
        name = str(read_toml(Path(name)).get("preset", ""))
    return PRESETS[name].defaults if name in PRESETS else {}


def model_config(name: str, changes: dict[str, Any] | None = None) -> ModelConfig:
    """Return the configuration of a preset, or of a TOML file, which may start from a preset (`preset = "..."`).

    Args:
        changes: nested values that override it, such as `{"dim": 32, "text": {"max_len": 128}}`.

    Raises:
        ConfigError: unknown preset, file or key.
    """
    configs = {name: preset.config for name, preset in PRESETS.items()}
    return resolve_preset(ModelConfig, configs, name, changes or {}, unknown=_unknown)


def resolve_preset(
    config_class: type[_C],
    presets: Mapping[str, _C],
    name: str,
    changes: Mapping[str, Any],
    *,
    unknown: Callable[[str], str],
) -> _C:
    """Return the configuration of a preset, or of a TOML file, which may start from a preset, with changes.

    Args:
        name: may be "", where the changes are the whole configuration.
        unknown: returns the message for a name that no preset has.

    Raises:
        ConfigError: unknown preset, file or key.
    """
    values: dict[str, Any] = {}
    where = "model"
    if name.endswith(".toml"):
        values = read_toml(Path(name))
        where = name
        name = str(values.pop("preset", ""))
    if name:
        if name not in presets:
            raise ConfigError(f"{where}: {unknown(name)}")
        values = merge(presets[name].to_dict(), values)
    return parse(config_class, merge(values, changes), where=where)


def _unknown(name: str) -> str:
    for home, message in _ELSEWHERE.items():
        module, _, table = home.partition(":")
        if name in getattr(importlib.import_module(module), table):
            return f"{name!r} is {message}"
    return f"unknown preset {name!r} (a file must end in .toml); {near_miss(name, PRESETS)}"


def with_changes(given: str | Mapping[str, Any], changes: Mapping[str, Any]) -> ModelConfig:
    """Return a model by name, file or table (which may name a preset), with changes; raises as `model_config`."""
    if isinstance(given, str):
        return model_config(given, dict(changes))
    table = dict(given)
    return model_config(table.pop("preset", ""), merge(table, changes))
