"""What the writers of modules share: the graph, and the values that many of them read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from mixling.export.graph_builder import GraphBuilder


class NoWriter(Exception):
    """A module has no writer, or an option that its writer does not know."""


@dataclass(frozen=True)
class Scope:
    """What the writers of all modules share.

    Attributes:
        graph: collects the nodes.
        writers: for each class its writer.
        length: the value N, of shape (1,).
        real: which tokens are real, (B, N, 1).
    """

    graph: GraphBuilder
    writers: Writers
    length: str
    real: str

    def write(self, module: Any, x: str) -> str:
        """Add the nodes of a module and return its output."""
        writer = self.writers.get(type(module))
        if writer is None or getattr(module, "causal", False):
            raise NoWriter
        return writer(self, module, x)

    def without_padding(self, x: str, fill: float = 0.0) -> str:
        """Return (B, N, ...) with one value in padding."""
        return self.graph.add("Where", self.real, x, self.graph.constant(fill))

    def seen(self) -> str:
        """Return which keys are real, (B, 1, N)."""
        return self.graph.add("Transpose", self.real, perm=(0, 2, 1))

    @cached_property
    def indices(self) -> str:
        """The indices of the tokens, (N,)."""
        zero = self.graph.constant(0, np.int64)
        one = self.graph.constant(1, np.int64)
        return self.graph.add("Range", zero, self.graph.add("Squeeze", self.length), one)

    @cached_property
    def distances(self) -> str:
        """The distances j - i of keys and queries, (N, N)."""
        rows, columns = (self.graph.add("Unsqueeze", self.indices, self.graph.integers(axis)) for axis in (1, 0))
        return self.graph.add("Sub", columns, rows)


Writer = Callable[[Scope, Any, str], str]
Writers = Mapping[type[Any], Writer]
