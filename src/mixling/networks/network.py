"""A model of labels between its initialization and its file: configuration, weights by name, logits."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from mixling.arrays import Float32
from mixling.networks.config import ModelConfig, Output

if TYPE_CHECKING:
    from mixling.data.batches import Batch

NamedWeights = dict[str, Float32]
TRANSITION_SCORES = "head.transitions"


class TextNetwork(ABC):
    """A model of labels, whichever engine computes it.

    Attributes:
        config: complete, with the rows of the embedding table.
        num_outputs: C.
        output: see `mixling.models.Model`.
        num_parameters: how many numbers are trained.
    """

    num_parameters: int

    def __init__(self, config: ModelConfig, *, num_outputs: int, output: Output) -> None:
        self.config = config
        self.num_outputs = num_outputs
        self.output = output

    @property
    def of_tokens(self) -> bool:
        """Whether there are logits for each token, or word, not for the text."""
        return self.output != "text"

    @property
    def transitions(self) -> Float32 | None:
        """The score (C, C) of each tag after each other one; None: the model did not learn them."""
        return self.weights().get(TRANSITION_SCORES)

    @abstractmethod
    def weights(self) -> NamedWeights:
        """Return a copy of the weights by their names in PyTorch's model."""

    @abstractmethod
    def restore(self, weights: Mapping[str, Float32]) -> None:
        """Take over weights by name."""

    @abstractmethod
    def logits(self, batch: Batch) -> Float32:
        """Return the logits of a batch, (B, C) or (B, N, C)."""

    def module(self) -> Any:
        """Return a copy of PyTorch's model, on the CPU and in float32; None: there is none."""
        return None

    @abstractmethod
    def copy(self) -> TextNetwork:
        """Return a network with weights of its own."""


class UnreadNetwork(TextNetwork):
    """Weights as arrays, at first zero, which no engine computes logits of: n-grams are alone.

    Args:
        shapes: of the weights by name.
    """

    def __init__(
        self, config: ModelConfig, *, num_outputs: int, output: Output, shapes: Mapping[str, tuple[int, ...]]
    ) -> None:
        super().__init__(config, num_outputs=num_outputs, output=output)
        self._weights = {name: np.zeros(shape, np.float32) for name, shape in shapes.items()}
        self.num_parameters = sum(weight.size for weight in self._weights.values())

    def weights(self) -> NamedWeights:
        return {name: weight.copy() for name, weight in self._weights.items()}

    def restore(self, weights: Mapping[str, Float32]) -> None:
        for name, weight in self._weights.items():
            weight[...] = weights[name]

    def logits(self, batch: Batch) -> Float32:
        raise NotImplementedError

    def copy(self) -> UnreadNetwork:
        shapes = {name: weight.shape for name, weight in self._weights.items()}
        made = UnreadNetwork(self.config, num_outputs=self.num_outputs, output=self.output, shapes=shapes)
        made.restore(self._weights)
        return made
