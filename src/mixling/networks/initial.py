"""Initial weights of the networks that native steps know, with the distributions of `mixling.models`."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from mixling.networks.config import ModelConfig
from mixling.networks.network import TRANSITION_SCORES, NamedWeights


def initial_weights(config: ModelConfig, shapes: Mapping[str, tuple[int, ...]], seed: int) -> NamedWeights:
    """Return random weights by name; each depends on the seed and on those before it.

    Linear layers are uniform within 1 / sqrt(inputs), as PyTorch's; norms begin at one, and transitions at zero.

    Args:
        config: of the network.
        shapes: of its parameters.
        seed: of the random numbers.
    """
    random = np.random.default_rng(seed)
    dim = config.dim
    window = config.embedding.window
    out: NamedWeights = {}
    for name, shape in shapes.items():
        layer, _, part = name.rpartition(".")
        if name == "embedding.weight":
            if config.text.projection.trained_rows:  # Xavier's scale assumes a sum of many rows; a table gives one
                values = random.standard_normal(shape, np.float32) * dim**-0.5
            else:
                values = _uniform(random, shape, (6 / sum(shape)) ** 0.5)
        elif name == "embedding.spread":  # the word itself, with little of its neighbors
            values = random.standard_normal(shape, np.float32) * (0.1 * dim**-0.5)
            values[:, window * dim : (window + 1) * dim] += np.eye(dim, dtype=np.float32)
        elif name in ("embedding.bias", TRANSITION_SCORES):
            values = np.zeros(shape, np.float32)
        elif "norm" in layer:
            values = np.full(shape, part == "weight", np.float32)
        else:
            values = _uniform(random, shape, shapes[f"{layer}.weight"][1] ** -0.5)
        out[name] = values.astype(np.float32)
    return out


def _uniform(random: np.random.Generator, shape: tuple[int, ...], limit: float) -> np.ndarray:
    return (random.random(shape, np.float32) * 2 - 1) * np.float32(limit)
