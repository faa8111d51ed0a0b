"""Parameters and operations of a configuration, without memory for the model's weights."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from mixling.models.counts import Counts, count_encoder, count_layers
from mixling.models.model import count_parameters
from mixling.research.seq2seq.model import EncoderDecoderConfig, build_encoder_decoder
from mixling.research.vision.model import ImageModelConfig, build_image_model


def count_images(config: ImageModelConfig) -> Counts:
    """Count the parameters and operations of an image model; its tokens are the patches and the class token."""

    def built(config: ImageModelConfig, length: int) -> Counts:
        with torch.device("meta"):
            model = build_image_model(config, num_outputs=2)
        front = count_parameters(model.patches) + (config.dim if config.class_token else 0)
        front += 0 if model.positions is None else count_parameters(model.positions)
        return count_encoder(model.encoder, front, length)

    return count_layers(config, config.num_tokens, built)


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
    source = config.max_source_len
    target = config.max_target_len
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
    source = config.max_source_len
    target = config.max_target_len
    with torch.device("meta"):
        model = build_encoder_decoder(config.model_copy(update=stacks), vocab_size=1)
    return [
        (count_parameters(model.encoder), model.encoder.flops(1, source)),
        (count_parameters(model.decoder), model.decoder.flops(1, target, source)),
    ]
