"""Build an ONNX graph node by node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from mixling.runtime.onnx.graph import Node

# What is to be sliced up to its end.
END = 2**63 - 1


@dataclass
class WrittenGraph:
    """Nodes in order, weights by name, inputs with ONNX's number of their types, and float outputs.

    Sizes that are names are variable.
    """

    nodes: list[Node] = field(default_factory=list)
    weights: dict[str, npt.NDArray[Any]] = field(default_factory=dict)
    inputs: dict[str, tuple[int, tuple[Any, ...]]] = field(default_factory=dict)
    outputs: dict[str, tuple[Any, ...]] = field(default_factory=dict)


def as_array(weight: Any) -> npt.NDArray[Any]:
    """Return an array, or a tensor of PyTorch, as an array."""
    array: npt.NDArray[Any] = weight if isinstance(weight, np.ndarray) else weight.detach().numpy()
    return array


class GraphBuilder:
    """Collects the nodes and weights of a graph; a value is known by its name.

    Args:
        names: of the model's weights, by `id`; weights keep these names in the file.
    """

    def __init__(self, names: Mapping[int, str]) -> None:
        self._names = names
        self.graph = WrittenGraph()
        self._count = 0

    def weight(self, tensor: Any, *, transposed: bool = False) -> str:
        """Add an array or a tensor of the model, once; transposed, if it is to be multiplied from the right."""
        name = self._names[id(tensor)] + (".T" if transposed else "")
        if name not in self.graph.weights:
            values = as_array(tensor)
            self.graph.weights[name] = np.ascontiguousarray(values.T if transposed else values)
        return name

    def constant(self, values: npt.ArrayLike, kind: npt.DTypeLike = np.float32) -> str:
        """Add an array that is no weight of the model, once for equal ones."""
        array = np.asarray(values, kind)
        content = "_".join(map(str, array.reshape(-1).tolist())) if array.size <= 8 else str(len(self.graph.weights))
        name = f"{array.dtype}{list(array.shape)}:{content}"
        self.graph.weights.setdefault(name, array)
        return name

    def integers(self, *values: int) -> str:
        """Add a vector of 64-bit integers: axes, starts and ends, sizes."""
        return self.constant(values, np.int64)

    def add(self, operator: str, *inputs: str, **attributes: Any) -> str:
        """Add a node with one output and return the output's name."""
        return self.split(operator, 1, *inputs, **attributes)[0]

    def split(self, operator: str, number: int, *inputs: str, **attributes: Any) -> list[str]:
        """Add a node with several outputs and return their names."""
        outputs = [f"v{self._count + i}" for i in range(number)]
        self._count += number
        self.graph.nodes.append(Node(operator, inputs, tuple(outputs), attributes))
        return outputs

    def slice(self, x: str, axes: Sequence[int], starts: Sequence[int], ends: Sequence[int] | str) -> str:
        """Slice by known limits, or up to a length that is a value of the graph."""
        end = ends if isinstance(ends, str) else self.integers(*ends)
        return self.add("Slice", x, self.integers(*starts), end, self.integers(*axes))

    def build(
        self, inputs: Mapping[str, tuple[int, tuple[Any, ...]]], outputs: Mapping[str, tuple[str, tuple[Any, ...]]]
    ) -> WrittenGraph:
        """Return the graph.

        Args:
            inputs: by name, ONNX's number of the type and the sizes; variable ones are names.
            outputs: by name, the value and the sizes of a float tensor.
        """
        renamed = {value: name for name, (value, _) in outputs.items()}

        def named(names: tuple[str, ...]) -> tuple[str, ...]:
            return tuple(renamed.get(name, name) for name in names)

        graph = self.graph
        graph.nodes = [
            Node(node.operator, named(node.inputs), named(node.outputs), node.attributes) for node in graph.nodes
        ]
        graph.inputs = dict(inputs)
        graph.outputs = {name: sizes for name, (_, sizes) in outputs.items()}
        return graph
