"""Counts that follow from a configuration alone; the model is built without memory for its weights."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from mixling.models.model import Model, ModelConfig, build_model, count_parameters
from mixling.text.fingerprint import Units

DEFAULT_VOCABULARY = 30_522


@dataclass(frozen=True, kw_only=True)
class Counts:
    """parameters: with the table or bottleneck, without the head. body: of the encoder alone.

    flops: of the encoder for one text of `length` tokens, 2 per multiply-add of matrix products. The front end has
    none: it looks rows up, or sums a few of them.
    """

    parameters: int
    body: int
    length: int
    flops: int


def sized(config: ModelConfig, *, vocabulary: int | None = None, max_len: int | None = None) -> ModelConfig:
    """The configuration with an embedding table of `vocabulary` units where it has one, and for longer texts."""
    text = config.text
    if isinstance(text.projection, Units) and text.projection.num_features is None:
        text = text.model_copy(update={"projection": Units(num_features=vocabulary or DEFAULT_VOCABULARY)})
    if max_len is not None:
        text = text.model_copy(update={"max_len": max_len})
    return config.model_copy(update={"text": text})


def count(config: ModelConfig, *, length: int | None = None, vocabulary: int | None = None) -> Counts:
    """What a model of this configuration has and does, for a text of `length` tokens (default: the longest)."""
    config = sized(config, vocabulary=vocabulary)
    length = config.text.max_len if length is None else length
    with torch.device("meta"):
        model: Model = build_model(config, num_outputs=2, output="text")
    body = count_parameters(model.encoder)
    parameters = body + count_parameters(model.frontend)
    return Counts(parameters=parameters, body=body, length=length, flops=model.encoder.flops(1, length))
