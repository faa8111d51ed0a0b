"""A model of PyTorch as a `TextNetwork`."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch

from mixling.arrays import Float32
from mixling.models.model import Model, build_model, count_parameters
from mixling.models.tensors import array_of, restore_weights, tensors_of, weights_of
from mixling.networks.config import ModelConfig, Output
from mixling.networks.network import TRANSITION_SCORES, NamedWeights, TextNetwork

if TYPE_CHECKING:
    from mixling.data.batches import Batch


class TorchNetwork(TextNetwork):
    """A model of PyTorch.

    Args:
        model: on any device; trained and read in place.
    """

    def __init__(self, model: Model) -> None:
        super().__init__(model.config, num_outputs=model.num_outputs, output=model.output)
        self.model = model
        self.num_parameters = count_parameters(model)

    @property
    def transitions(self) -> Float32 | None:
        found = self.model.state_dict().get(TRANSITION_SCORES)
        return None if found is None else array_of(found)

    def weights(self) -> NamedWeights:
        return weights_of(self.model)

    def restore(self, weights: Mapping[str, Float32]) -> None:
        restore_weights(self.model, weights)

    @torch.inference_mode()
    def logits(self, batch: Batch) -> Float32:
        self.model.eval()
        device = next(self.model.parameters()).device
        found: Float32 = self.model(*tensors_of(batch.arguments, device)).float().cpu().numpy()
        return found

    def module(self) -> Model:
        """Return a copy of the model, on the CPU, in float32 and in evaluation mode."""
        return copy.deepcopy(self.model).cpu().float().eval()

    def copy(self) -> TorchNetwork:
        return TorchNetwork(copy.deepcopy(self.model))


def build_network(config: ModelConfig, *, num_outputs: int, output: Output, seed: int | None = None) -> TorchNetwork:
    """Build a network with initial weights, and fixed embeddings where the configuration names them.

    Args:
        config: complete, with the rows of the embedding table.
        num_outputs: C.
        output: see `TextNetwork`.
        seed: of the initial weights; None: PyTorch's state.

    Raises:
        ConfigError: parts of the configuration do not fit each other.
    """
    return TorchNetwork(build_model(config, num_outputs=num_outputs, output=output, seed=seed))


def shapes_of_model(config: ModelConfig, num_outputs: int, output: Output) -> dict[str, tuple[int, ...]]:
    """Return the shapes of a model's weights by name, without memory for them."""
    with torch.device("meta"):
        model = build_model(config, num_outputs=num_outputs, output=output)
    return {name: tuple(value.shape) for name, value in model.state_dict().items()}


def as_torch(network: TextNetwork) -> TorchNetwork:
    """Return a network as one of PyTorch, with the same weights."""
    if isinstance(network, TorchNetwork):
        return network
    made = build_network(network.config, num_outputs=network.num_outputs, output=network.output)
    made.restore(network.weights())
    return made


def for_longer_texts(
    saved: ModelConfig, weights: NamedWeights, new: NamedWeights, max_len: int, parts: tuple[str, ...]
) -> NamedWeights:
    """Return the weights of a network resized for longer texts, where mixers support that; others are unchanged.

    Args:
        saved: the network's configuration.
        weights: with the prefixes `parts`.
        new: initial weights of the longer network, for the positions that are new.
        max_len: its length.
    """
    source = build_model(saved, num_outputs=2, output="text")
    restore_weights(source, {**weights_of(source), **weights})
    for module in source.encoder.modules():
        if hasattr(module, "resize"):
            cast(Any, module).resize(max_len)
    out = {name: value for name, value in weights_of(source).items() if name.startswith(parts)}
    name = "embedding.positions.weight"
    if name in out:
        out[name] = np.concatenate([out[name], new[name][saved.text.max_len :]])
    return out
