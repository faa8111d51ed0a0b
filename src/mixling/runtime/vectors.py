"""Vectors of texts, by the layer of the model that they are from."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from mixling.arrays import Float32, Int8
from mixling.errors import ConfigError, near_miss, shown
from mixling.features.cells import with_missing
from mixling.text.clean import check_many

if TYPE_CHECKING:
    from mixling.runtime.inference import Inference

LAYERS = ("words", "text")
VECTOR_TYPES = ("float32", "int8")
LENGTH = 127  # of vectors of integers


def encode_texts(inference: Inference, texts: Iterable[Any], *, layer: str, dtype: str) -> Any:
    """Return a vector (B, R) for each text; for the arguments and errors, see `Predictor.encode`."""
    for name, value, allowed in (("layer", layer, LAYERS), ("dtype", dtype, VECTOR_TYPES)):
        if value not in allowed:
            raise ConfigError(f"{name}: got {shown(value)}; {near_miss(str(value), allowed)}")
    if columns := inference.inputs.columns:  # which no vector shows
        check_many(texts, "texts")
        texts = (with_missing(text, columns) if isinstance(text, str | tuple) else text for text in texts)
    parts = [_vectors(inference, part, layer) for part in inference.inputs.parts(texts)]
    nothing = with_missing(
        ("",) * len(names) if len(names := inference.inputs.names or ("",)) > 1 else "", columns
    )  # whose vector has the size
    out = np.concatenate(parts) if parts else _vectors(inference, [nothing], layer)[:0]
    return to_integers(out) if dtype == "int8" else out


def to_integers(vectors: Float32) -> Int8:
    """Return vectors (B, R) of the length 127, rounded; one of zeros stays so."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    scaled = vectors * (LENGTH / np.where(lengths > 0, lengths, 1))
    integers: Int8 = np.rint(scaled).astype(np.int8)
    return integers


def _vectors(inference: Inference, texts: list[Any], layer: str) -> Float32:
    if layer == "words":
        return inference.vectors(texts)
    if inference.native is None:
        raise ConfigError(
            "layer: the C core does not run this model, and has no vectors of texts of it; use layer='words'"
        )
    if (found := inference.native.pooled(texts)) is None:
        gives = inference.native.task.replace("_", " ")
        raise ConfigError(f"layer: a model for {gives} has vectors of words alone; use layer='words'")
    return found
