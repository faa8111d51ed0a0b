"""The graph of a model file as plain data."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

# ONNX's numbers of the types that a model file may use, with NumPy's names.
FLOAT = 1
INT8 = 3
INT32 = 6
INT64 = 7
BOOL = 9
DOUBLE = 11
MAX_RANK = 8
TYPES = {FLOAT: "f4", 2: "u1", INT8: "i1", INT32: "i4", INT64: "i8", BOOL: "?", 10: "f2", DOUBLE: "f8"}
KIND_SIZES = {kind: np.dtype(name).itemsize for kind, name in TYPES.items()}  # in bytes


@dataclass(frozen=True, slots=True)
class Weights:
    """A constant tensor: its shape, its type (of `TYPES`) and its bytes."""

    shape: tuple[int, ...]
    kind: int
    data: memoryview

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    def array(self) -> npt.NDArray[Any]:
        return np.frombuffer(self.data, np.dtype(TYPES[self.kind]).newbyteorder("<")).reshape(self.shape)


@dataclass(frozen=True, slots=True)
class Node:
    """An operator with the names of its inputs (empty for an omitted one) and outputs."""

    operator: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: dict[str, Any]


@dataclass(slots=True)
class Graph:
    """Nodes in order, weights by name, and the types and dimensions (None: variable) of inputs and outputs."""

    nodes: list[Node] = field(default_factory=list)
    weights: dict[str, Weights] = field(default_factory=dict)
    inputs: dict[str, tuple[int, tuple[int | None, ...]]] = field(default_factory=dict)
    outputs: dict[str, tuple[int, tuple[int | None, ...]]] = field(default_factory=dict)
