"""Build an ONNX graph node by node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from torch import Tensor

# What is to be sliced up to its end.
END = 2**63 - 1


class GraphBuilder:
    """Collects the nodes and weights of a graph; a value is known by its name.

    Args:
        names: of the model's weights, by `id`; weights keep these names in the file.
    """

    def __init__(self, names: Mapping[int, str]) -> None:
        self._names = names
        self._nodes: list[Any] = []
        self._weights: dict[str, npt.NDArray[Any]] = {}
        self._count = 0

    def weight(self, tensor: Tensor, *, transposed: bool = False) -> str:
        """Add a weight of the model, once; transposed, if it is a matrix to be multiplied from the right."""
        name = self._names[id(tensor)] + (".T" if transposed else "")
        if name not in self._weights:
            values = tensor.detach().numpy()
            self._weights[name] = np.ascontiguousarray(values.T if transposed else values)
        return name

    def constant(self, values: npt.ArrayLike, kind: npt.DTypeLike = np.float32) -> str:
        """Add an array that is no weight of the model, once for equal ones."""
        array = np.asarray(values, kind)
        content = "_".join(map(str, array.reshape(-1).tolist())) if array.size <= 8 else str(len(self._weights))
        name = f"{array.dtype}{list(array.shape)}:{content}"
        self._weights.setdefault(name, array)
        return name

    def integers(self, *values: int) -> str:
        """Add a vector of 64-bit integers: axes, starts and ends, sizes."""
        return self.constant(values, np.int64)

    def add(self, operator: str, *inputs: str, **attributes: Any) -> str:
        """Add a node with one output and return the output's name."""
        return self.split(operator, 1, *inputs, **attributes)[0]

    def split(self, operator: str, number: int, *inputs: str, **attributes: Any) -> list[str]:
        """Add a node with several outputs and return their names."""
        from onnx import helper

        outputs = [f"v{self._count + i}" for i in range(number)]
        self._count += number
        self._nodes.append(helper.make_node(operator, inputs, outputs, **attributes))
        return outputs

    def slice(self, x: str, axes: Sequence[int], starts: Sequence[int], ends: Sequence[int] | str) -> str:
        """Slice by known limits, or up to a length that is a value of the graph."""
        end = ends if isinstance(ends, str) else self.integers(*ends)
        return self.add("Slice", x, self.integers(*starts), end, self.integers(*axes))

    def build(
        self, inputs: Mapping[str, tuple[int, tuple[Any, ...]]], outputs: Mapping[str, tuple[str, tuple[Any, ...]]]
    ) -> Any:
        """Return the GraphProto.

        Args:
            inputs: by name, ONNX's number of the type and the sizes; variable ones are names.
            outputs: by name, the value and the sizes of a float tensor.
        """
        from onnx import TensorProto, helper, numpy_helper

        renamed = {value: name for name, (value, _) in outputs.items()}
        for node in self._nodes:
            for names in (node.input, node.output):
                names[:] = [renamed.get(name, name) for name in names]
        return helper.make_graph(
            self._nodes,
            "mixling",
            [helper.make_tensor_value_info(name, kind, sizes) for name, (kind, sizes) in inputs.items()],
            [helper.make_tensor_value_info(name, TensorProto.FLOAT, sizes) for name, (_, sizes) in outputs.items()],
            [numpy_helper.from_array(array, name) for name, array in self._weights.items()],
        )
