"""Small encoder-decoders of every family, with weights of some size everywhere, and sources for them."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from mixling.research.seq2seq import (
    EncoderDecoder,
    EncoderDecoderConfig,
    Shape,
    bag_of_words,
    build_encoder_decoder,
    hypermixer,
    lstm,
    mixer,
    mixer_transformer,
    remixer,
    t5,
)

SUBWORDS = 11
SHAPE = Shape(
    dim=8,
    ffn_dim=10,
    num_heads=2,
    head_dim=3,
    num_layers=2,
    num_decoder_layers=2,
    max_source_len=9,
    max_target_len=12,
)
FAMILIES: dict[str, Callable[[Shape], EncoderDecoderConfig]] = {
    "t5": t5,
    "t5-sinusoidal": lambda shape: t5(shape.model_copy(update={"source_positions": "sinusoidal"})),
    "remixer": remixer,
    "remixer-literal": lambda shape: remixer(shape, matched=False),
    "bilstm": lambda shape: lstm(shape, bidirectional=True),
    "bag-of-words": bag_of_words,
    "mixer-transformer": mixer_transformer,
    "mixer-windowed": lambda shape: mixer(shape, window=3),
    "mixer": lambda shape: mixer(shape, window=None),
    "hypermixer": hypermixer,
}
SOURCE_LENGTHS = [9, 1, 5]


def drawn(model: nn.Module, seed: int = 0, std: float = 0.4) -> None:
    """What begins at zero or one must not hide an error."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator) * std)


def built(
    family: str, *, vocab_size: int = SUBWORDS, seed: int = 0, std: float = 0.4, **sizes: object
) -> EncoderDecoder:
    config = FAMILIES[family](SHAPE.model_copy(update=sizes))
    model = build_encoder_decoder(config, vocab_size=vocab_size).double().eval()
    drawn(model, seed, std)
    return model


def sources(lengths: list[int], width: int | None = None, *, padding: int = 0, subwords: int = SUBWORDS) -> tuple:
    """Units whose real part depends on the number only, and the mask."""
    width = max(lengths) if width is None else width
    ids = torch.full((len(lengths), width), padding)
    for i, length in enumerate(lengths):
        ids[i, :length] = torch.randint(0, subwords, (length,), generator=torch.Generator().manual_seed(i))
    return ids, torch.arange(width) < torch.tensor(lengths)[:, None]


def targets(batch: int, length: int, seed: int = 7) -> Tensor:
    return torch.randint(0, SUBWORDS, (batch, length), generator=torch.Generator().manual_seed(seed))
