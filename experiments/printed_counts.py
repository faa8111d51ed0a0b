"""The parameters and operations that papers print, beside ours.

    python experiments/printed_counts.py

Conventions that reproduce the printed numbers: models for slots have MTOP's 151 IOB tags, Table 7's two classes,
image models 1,000; a masked language model's output is its table. gMLP's FLOPs are 2 for each multiply-add of all
matrix products, with W as a dense matrix, and the product with the table for the 15% of the tokens that are hidden.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from mixling import PRESETS, ModelConfig, build_model, model_config
from mixling.config import parse
from mixling.models import count, count_parameters
from mixling.networks import Output, sized
from mixling.research.cost.flops import count_encoder_decoder
from mixling.research.seq2seq import SEQ2SEQ_PRESETS
from mixling.research.vision import IMAGE_PRESETS, build_image_model

SLOT_TAGS = 151
IMAGE_CLASSES = 1000
_HIDDEN = 0.15  # of the tokens, in masked language modeling
_NO_RULE = "no rule found that gives the printed number"


@dataclass(frozen=True, kw_only=True)
class Printed:
    """What a paper prints of a model.

    Args:
        model: the preset.
        source: paper and table.
        parameters: millions of parameters, as printed.
        gflops: operations of one input, in billions.
        max_len: tokens of the input, where they differ from the preset's.
        outputs: number of labels; None: the output is the table of subwords.
        tokens: the labels belong to words, not to texts.
        note: why ours differs.
    """

    model: str
    source: str
    parameters: float
    gflops: float | None = None
    max_len: int | None = None
    outputs: int | None = None
    tokens: bool = False
    note: str = ""


@dataclass(frozen=True, kw_only=True)
class Compared:
    """A printed row and ours; `gflops` is None where the paper prints none."""

    printed: Printed
    parameters: int
    gflops: float | None

    @property
    def ratio(self) -> float:
        """Our parameters over the printed ones."""
        return self.parameters / (1e6 * self.printed.parameters)


def _slots(model: str, parameters: float, source: str = "pNLP-Mixer, Table 5", note: str = "") -> Printed:
    return Printed(model=model, source=source, parameters=parameters, outputs=SLOT_TAGS, tokens=True, note=note)


def _table_7(model: str, parameters: float, max_len: int) -> Printed:
    return Printed(model=model, source="pNLP-Mixer, Table 7", parameters=parameters, max_len=max_len, outputs=2)


def _masked(model: str, table: int, parameters: float, gflops: float | None = None) -> Printed:
    return Printed(model=model, source=f"gMLP, Table {table}", parameters=parameters, gflops=gflops)


PRINTED: tuple[Printed, ...] = (
    _slots("pnlp-mixer-x-large", 4.4),
    _slots("pnlp-mixer-large", 2.3),
    _slots("pnlp-mixer-base", 1.2),
    _slots("pnlp-mixer-small", 0.63),
    _slots("pnlp-mixer-x-small", 0.2),
    _slots("projection-only", 0.82, "pNLP-Mixer, Table 2"),
    _slots("projection-only-w4", 2.4, "pNLP-Mixer, Table 2"),
    _slots(
        "pnlp-lstm",
        1.8,
        "pNLP-Mixer, Table 2",
        "the preset reads in both directions; the paper's LSTM is nowhere called bidirectional",
    ),
    _slots("pnlp-transformer", 1.2, "pNLP-Mixer, Table 2"),
    *(
        _table_7(f"pnlp-mixer-{size}", parameters, max_len)
        for max_len, row in ((1024, (1.2, 2.1, 6.3)), (2048, (2.2, 3.2, 8.4)))
        for size, parameters in zip(("x-small", "base", "x-large"), row, strict=True)
    ),
    *(
        Printed(model=model, source="gMLP, Table 1", parameters=parameters, gflops=gflops, outputs=IMAGE_CLASSES)
        for model, parameters, gflops in (("gmlp-ti", 5.9, 2.7), ("gmlp-s", 19.5, 8.9), ("gmlp-b", 73.4, 31.6))
    ),
    *(
        Printed(model=model, source=source, parameters=parameters, outputs=IMAGE_CLASSES)
        for source, rows in (
            ("MLP-Mixer, Table 1", (("mixer-b16", 59), ("mixer-l16", 207))),
            ("ResMLP, Table 1", (("resmlp-s12", 15), ("resmlp-s24", 30))),
            ("DeiT, Table 1", (("deit-ti", 5), ("deit-s", 22), ("deit-b", 86))),
        )
        for model, parameters in rows
    ),
    _masked("bert-base", 3, 110),
    _masked("bert-base-content-free", 3, 96),
    _masked("mlp-mixer-text", 3, 112),
    *(_masked(f"gmlp-36-{variant}", 3, 92) for variant in ("linear", "additive", "multiplicative")),
    *(_masked(f"gmlp-{layers}", 4, size) for layers, size in ((18, 59), (36, 102), (72, 187), (144, 357))),
    *(_masked(f"bert-{layers}-relative", 4, size) for layers, size in ((6, 67), (12, 110), (24, 195), (48, 365))),
    *(_masked(f"bert-{shape}", 10, size) for shape, size in (("24-512", 92), ("48-384", 98), ("96-256", 84))),
    _masked("bert-base", 5, 110, 100.8),
    _masked("bert-large", 5, 336, 341.2),
    _masked("gmlp-base", 5, 130, 158.0),
    _masked("gmlp-large", 5, 365, 430.1),
    _masked("gmlp-x-large", 5, 941, 1091.3),
    _masked("amlp-base", 5, 109, 128.9),
    _masked("amlp-large", 5, 316, 370.3),
    *(Printed(model=model, source="HyperMixer, section 4.3", parameters=11) for model in ("hypermixer", "transformer")),
    Printed(model="t5-1.1-base", source="Remixer, Table 1", parameters=248),
    *(
        Printed(model=model, source="Remixer, Table 1", parameters=parameters, note=_NO_RULE)
        for model, parameters in (("remixer-base", 324), ("remixer-scaled-base", 224), ("mixer-mixer-base", 212))
    ),
)


def compare_counts(printed: Printed) -> Compared:
    """Count a model as its paper does."""
    name = printed.model
    if name in SEQ2SEQ_PRESETS:
        pair = SEQ2SEQ_PRESETS[name]
        size = count_encoder_decoder(pair.config, vocabulary=pair.vocabulary).parameters
        return Compared(printed=printed, parameters=size, gflops=None)
    if name in IMAGE_PRESETS:
        return _compare_image(printed)
    # gMLP's Table 5 has 512 tokens, which BERT base's preset (Table 3) lacks.
    length = printed.max_len or (512 if printed.gflops is not None else None)
    config = sized(model_config(name), vocabulary=PRESETS[name].vocabulary, max_len=length)
    size = count(config).parameters + (_head(config, printed) if printed.outputs is not None else 0)
    if printed.gflops is None:
        return Compared(printed=printed, parameters=size, gflops=None)
    counts = count(_dense(config))
    table = 2 * round(_HIDDEN * counts.length) * config.dim * config.text.num_rows
    return Compared(printed=printed, parameters=size, gflops=(counts.flops + table) / 1e9)


def _head(config: ModelConfig, printed: Printed) -> int:
    output: Output = "tokens" if printed.tokens else "text"
    small = config if config.num_layers is None else config.model_copy(update={"num_layers": min(1, config.num_layers)})
    assert printed.outputs is not None
    with torch.device("meta"):
        return count_parameters(build_model(small, num_outputs=printed.outputs, output=output).head)


def _dense(config: ModelConfig) -> ModelConfig:
    """Return the model with dense spatial weights, which have as many operations as a Toeplitz matrix written out."""
    values = config.to_dict()
    for layer in values["layers"]:
        for mixer in layer["mixers"]:
            if mixer["type"] == "spatial_gating":
                mixer["weights"] = "dense"
    return parse(ModelConfig, values, where="dense weights")


def _compare_image(printed: Printed) -> Compared:
    config = IMAGE_PRESETS[printed.model].config
    assert printed.outputs is not None
    with torch.device("meta"):
        model = build_image_model(config, num_outputs=printed.outputs)
    dim = config.dim
    patches = config.num_tokens - config.class_token
    products = patches * config.channels * config.patch_size**2 * dim + dim * printed.outputs
    products += dim * dim if config.pre_logits else 0
    flops = model.encoder.flops(1, config.num_tokens) + 2 * products
    return Compared(printed=printed, parameters=count_parameters(model), gflops=flops / 1e9)


def lines() -> list[str]:
    """Return the table of all printed numbers, a line for each."""
    rows = [compare_counts(printed) for printed in PRINTED]
    width = max(len(row.printed.model) for row in rows)
    name = "mixling"
    heading = f"{'model':<{width}} {'printed':>10} {name:>10} {'':>7} {'printed':>8} {name:>9} {'GFLOPs':>7}  source"
    return [heading, *(_line(row, width) for row in rows)]


def _line(row: Compared, width: int) -> str:
    printed = row.printed
    flops = ""
    if row.gflops is not None and printed.gflops is not None:
        flops = f"{printed.gflops:.1f} {row.gflops:>9.1f} {100 * (row.gflops / printed.gflops - 1):>+6.1f}%"
    tokens = f", {printed.max_len} tokens" if printed.max_len else ""
    note = f" ({printed.note})" if printed.note else ""
    return (
        f"{printed.model:<{width}} {printed.parameters:>9g}M {row.parameters / 1e6:>9.3f}M "
        f"{100 * (row.ratio - 1):>+6.1f}% {flops:>26}  {printed.source}{tokens}{note}"
    )


if __name__ == "__main__":
    print("\n".join(lines()))
