"""Parameters and operations of a configuration, without memory for the model's weights."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from mixling.layers.mixer import Mixer
from mixling.models.model import ModelConfig, build_model, count_parameters, sized
from mixling.research.seq2seq.model import EncoderDecoderConfig, build_encoder_decoder
from mixling.research.vision.model import ImageModelConfig, build_image_model


@dataclass(frozen=True, kw_only=True)
class Counts:
    """Parameters and operations of a text or image model.

    Attributes:
        parameters: of embedding layer (or patches) and encoder, without the head.
        body: parameters of the encoder.
        length: number of tokens.
        flops: of the encoder for one text of `length` tokens; a multiply-add of a matrix product counts as 2, and an
            FFT of L numbers as 5 L log2 L. The embedding layer of texts has none, since it looks rows up; that of
            images is not counted.
    """

    parameters: int
    body: int
    length: int
    flops: int


def count(
    config: ModelConfig | ImageModelConfig, *, length: int | None = None, vocabulary: int | None = None
) -> Counts:
    """Count the parameters and operations of a model.

    Args:
        length: number of tokens; by default the maximum. The tokens of images are the patches and the class token.
        vocabulary: number of rows of an embedding table.
    """
    if isinstance(config, ModelConfig):
        config = sized(config, vocabulary=vocabulary)
    if length is None:
        length = config.text.max_len if isinstance(config, ModelConfig) else config.num_tokens
    layers = config.num_layers or 0
    if layers <= 2:
        return _built(config, length)
    # The first layer may have parameters that the others share; each further one adds as much as the second.
    one, two = (_built(config.model_copy(update={"num_layers": number}), length) for number in (1, 2))
    return Counts(
        parameters=one.parameters + (layers - 1) * (two.parameters - one.parameters),
        body=one.body + (layers - 1) * (two.body - one.body),
        length=length,
        flops=one.flops + (layers - 1) * (two.flops - one.flops),
    )


@dataclass(frozen=True, kw_only=True)
class PairCounts:
    """Parameters and operations of a text-to-text model.

    Attributes:
        parameters: all, with the tables of subwords and positions.
        body: parameters of encoder and decoder.
        length, target_length: number of tokens of source and target.
        flops: of encoder and decoder, counted as in `Counts`, without the product with the output table.
    """

    parameters: int
    body: int
    length: int
    target_length: int
    flops: int


def count_encoder_decoder(config: EncoderDecoderConfig, *, vocabulary: int) -> PairCounts:
    """Count the parameters and operations of a text-to-text model, for the maximum lengths.

    Args:
        vocabulary: number of subwords.
    """
    source, target = config.max_source_len, config.max_target_len
    depths = [stack.num_layers or 0 for stack in (config.encoder, config.decoder)]
    # As in `count`; stacks whose layers are listed one by one are unchanged.
    small = [_pair(config, min(1, depths[0]), min(1, depths[1])), _pair(config, min(2, depths[0]), min(2, depths[1]))]
    tables = config.dim * vocabulary * (1 if config.tied else 2)
    body = flops = 0
    for one, two, depth in zip(*small, depths, strict=True):
        more = max(0, depth - 1)
        body += one[0] + more * (two[0] - one[0])
        flops += one[1] + more * (two[1] - one[1])
    if config.source_positions == "learned":
        tables += config.dim * source
    return PairCounts(parameters=tables + body, body=body, length=source, target_length=target, flops=flops)


def _pair(config: EncoderDecoderConfig, layers: int, decoder_layers: int) -> list[tuple[int, int]]:
    """Return parameters and operations of the encoder and the decoder with these numbers of layers."""
    stacks = {
        name: stack if stack.num_layers is None else stack.model_copy(update={"num_layers": depth})
        for name, stack, depth in (("encoder", config.encoder, layers), ("decoder", config.decoder, decoder_layers))
    }
    source, target = config.max_source_len, config.max_target_len
    with torch.device("meta"):
        model = build_encoder_decoder(config.model_copy(update=stacks), vocab_size=1)
    return [
        (count_parameters(model.encoder), model.encoder.flops(1, source)),
        (count_parameters(model.decoder), model.decoder.flops(1, target, source)),
    ]


def _built(config: ModelConfig | ImageModelConfig, length: int) -> Counts:
    with torch.device("meta"):
        if isinstance(config, ModelConfig):
            model = build_model(config, num_outputs=2, output="text")
            encoder, front = model.encoder, count_parameters(model.embedding)
        else:
            image_model = build_image_model(config, num_outputs=2)
            encoder, front = image_model.encoder, count_parameters(image_model.patches)
            front += config.dim if config.class_token else 0
            front += 0 if image_model.positions is None else count_parameters(image_model.positions)
    body = count_parameters(encoder)
    flops = encoder.flops(1, length)
    flops += sum(part.fft_flops(1, length) for part in encoder.modules() if isinstance(part, Mixer))
    return Counts(parameters=body + front, body=body, length=length, flops=flops)
