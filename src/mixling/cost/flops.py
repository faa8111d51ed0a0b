"""Counts that follow from a configuration alone; the model is built without memory for its weights."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from mixling.models.model import ModelConfig, build_model, count_parameters, sized
from mixling.seq2seq.model import EncoderDecoderConfig, build_encoder_decoder
from mixling.vision import ImageModelConfig, build_image_model


@dataclass(frozen=True, kw_only=True)
class Counts:
    """parameters: with the table, bottleneck or patches, without the head. body: of the encoder alone.

    flops: of the encoder for one text of `length` tokens, 2 per multiply-add of matrix products. The embedding layer
        has
    none: it looks rows up, or sums a few of them; the one of images is not counted.
    """

    parameters: int
    body: int
    length: int
    flops: int


def count(
    config: ModelConfig | ImageModelConfig, *, length: int | None = None, vocabulary: int | None = None
) -> Counts:
    """What a model of this configuration has and does, for a text of `length` tokens (default: the longest).

    Of images the tokens are the patches and the class token.
    """
    if isinstance(config, ModelConfig):
        config = sized(config, vocabulary=vocabulary)
    if length is None:
        length = config.text.max_len if isinstance(config, ModelConfig) else config.num_tokens
    layers = config.num_layers or 0
    if layers <= 2:
        return _built(config, length)
    # Equal layers: the first may hold what the others share with it, and each further one adds what the second does.
    one, two = (_built(config.model_copy(update={"num_layers": number}), length) for number in (1, 2))
    return Counts(
        parameters=one.parameters + (layers - 1) * (two.parameters - one.parameters),
        body=one.body + (layers - 1) * (two.body - one.body),
        length=length,
        flops=one.flops + (layers - 1) * (two.flops - one.flops),
    )


@dataclass(frozen=True, kw_only=True)
class PairCounts:
    """parameters: all, with the tables of subwords and places. body: of encoder and decoder.

    flops: of encoder and decoder for a source and a target of these lengths, as those of `Counts`; the product with the
    table of the answers is not counted.
    """

    parameters: int
    body: int
    length: int
    target_length: int
    flops: int


def count_encoder_decoder(config: EncoderDecoderConfig, *, vocabulary: int) -> PairCounts:
    """What a model from text to text has and does, for the longest source and target."""
    source, target = config.max_source_len, config.max_target_len
    depths = [stack.num_layers or 0 for stack in (config.encoder, config.decoder)]
    # As of encoders; a stack of layers that are given one by one stays as it is.
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
    """Parameters and operations of the encoder and the decoder of so many layers each."""
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
    body = count_parameters(encoder)
    return Counts(parameters=body + front, body=body, length=length, flops=encoder.flops(1, length))
