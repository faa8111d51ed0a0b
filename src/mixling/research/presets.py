"""The models of papers that need PyTorch: gMLP, BERT, HyperMixer and what they are compared with.

An embedding table is as large as the vocabulary, which by default is trained on the user's own text;
`Preset.vocabulary` is the size in the paper's parameter counts.

Two widths printed in gMLP contradict its parameter counts: with 3072, the models of Table 3 without a split would have
130 million parameters, not 92 (which 2048 gives), and its text MLP-Mixer 140.4 million, not 112 (which 2304 gives).
"""

from __future__ import annotations

from typing import Any, Literal

from mixling.layers.positions import RelativePositions
from mixling.mixers.attention import AttentionConfig
from mixling.mixers.fourier import FourierConfig
from mixling.mixers.hypermixing import HyperMixingConfig
from mixling.mixers.linear_attention import LinearAttentionConfig
from mixling.mixers.recurrent import RecurrentConfig
from mixling.mixers.spatial_gating import SpatialGatingConfig
from mixling.mixers.synthesizer import SynthesizerConfig
from mixling.networks.blocks import BlockConfig, FeedForwardConfig, PositionKind
from mixling.networks.config import EmbeddingConfig, HeadConfig, ModelConfig
from mixling.networks.mixer import MixerConfig
from mixling.networks.mixers import TokenMLPConfig
from mixling.networks.presets import Preset, pnlp_mixer
from mixling.text.config import TextConfig
from mixling.text.fingerprint import SubwordEmbedding, Tsp


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
    """Return one of the models of 11 million parameters that HyperMixer compares (sections 4.2 and 4.3).

    It has 6 layers of width 256 and 30,522 subwords. The paper's layout is in an appendix that was not available;
    this one has its parameter count. Mixers with fewer parameters than attention's 4 (D^2 + D) get a wider
    feed-forward.
    """
    layer = _layer(mixer, ffn_dim, norm=norm)
    return _on_subwords(layer, dim=256, num_layers=6, max_len=128, positions=positions, final_norm=norm == "pre")


_OWN = "mixling"
_TO_PRETRAIN = "pretraining in hours of two cores"
_BASELINE = "pNLP-Mixer, section 5.2"
_BASE = pnlp_mixer(num_features=1024, window=1, dim=256, num_layers=0)
_HYPERMIXER = "HyperMixer, section 4.3"


def _pnlp_baseline(layer: BlockConfig) -> ModelConfig:
    """Return a model with pNLP-Mixer BASE's embedding layer and one layer of another mixer."""
    return _BASE.model_copy(update={"layers": (layer,), "num_layers": 1})


PAPER_PRESETS: dict[str, Preset] = {
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
