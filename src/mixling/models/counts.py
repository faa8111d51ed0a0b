"""Parameters and operations of models, counted without memory for their weights."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from mixling.layers.mixer import Mixer
from mixling.models.model import build_model, count_parameters
from mixling.networks.config import ModelConfig, sized


@dataclass(frozen=True, kw_only=True)
class Counts:
    """Parameters and operations of a text or image model.

    Attributes:
        parameters: of embedding layer (or patches) and encoder, without the head.
        body: parameters of the encoder.
        length: number of tokens.
        flops: of the encoder for one text of `length` tokens; a multiply-add of a matrix product counts as 2, and an
            FFT of L numbers as 5 L log2 L. The embedding layer of texts has none, since it looks rows up; the layer of
            images is not counted.
    """

    parameters: int
    body: int
    length: int
    flops: int


def count(config: ModelConfig, *, length: int | None = None, vocabulary: int | None = None) -> Counts:
    """Count the parameters and operations of a text model.

    Args:
        length: number of tokens; by default the maximum.
        vocabulary: number of rows of an embedding table.
    """

    def built(config: ModelConfig, length: int) -> Counts:
        with torch.device("meta"):
            model = build_model(config, num_outputs=2, output="text")
        return count_encoder(model.encoder, count_parameters(model.embedding), length)

    config = sized(config, vocabulary=vocabulary)
    return count_layers(config, config.text.max_len if length is None else length, built)


def count_layers(config: Any, length: int, built: Callable[[Any, int], Counts]) -> Counts:
    """Count a model of any depth from those with one and two layers.

    Args:
        built: builds and counts a model.
    """
    layers = config.num_layers or 0
    if layers <= 2:
        return built(config, length)
    # The first layer may have parameters that the others share; each further one adds as much as the second.
    one, two = (built(config.model_copy(update={"num_layers": number}), length) for number in (1, 2))
    return Counts(
        parameters=one.parameters + (layers - 1) * (two.parameters - one.parameters),
        body=one.body + (layers - 1) * (two.body - one.body),
        length=length,
        flops=one.flops + (layers - 1) * (two.flops - one.flops),
    )


def count_encoder(encoder: Any, front: int, length: int) -> Counts:
    """Count an encoder.

    Args:
        front: the number of parameters before it.
    """
    body = count_parameters(encoder)
    flops = encoder.flops(1, length)
    flops += sum(part.fft_flops(1, length) for part in encoder.modules() if isinstance(part, Mixer))
    return Counts(parameters=body + front, body=body, length=length, flops=flops)
