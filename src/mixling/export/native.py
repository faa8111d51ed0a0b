"""The plan of a model file: what the native engine computes, and which tensors of the graph it takes.

The graph computes the same by 70 to 150 operators, which change with the exporter's version. The plan names the parts
of the model instead, each with the tensors that it reads from the file, so that no weight is stored twice. It is the
entry `native` of the file's metadata; a model that the native engine cannot run has none (docs/format.md).
"""

from __future__ import annotations

import importlib
import itertools
from typing import Any

import numpy as np
import numpy.typing as npt

from mixling.export.graph_builder import WrittenGraph, as_array
from mixling.export.layers import FeedForwardLayer, IdentityLayer, Layers, Norm, TokenMixingLayer

PLAN_VERSION = 2  # 1 without vectors of positions and a norm of the tokens


class Unsupported(Exception):
    """The model has a part that the native engine does not know."""


def native_plan(
    layers: Layers, graph: WrittenGraph, table: npt.NDArray[Any], scale: npt.NDArray[Any] | None
) -> dict[str, Any] | None:
    """Return the plan of a network, None where the native engine cannot run it.

    Args:
        graph: before its matrices are stored in 8 bits: arrays are found by their values.
        table: the matrix that the bags of words point into, as the graph has it.
        scale: of its columns, in 8 bits.
    """
    try:
        return NativePlan(graph).of(layers, table, scale)
    except Unsupported:
        return None


class NativePlan:
    """Names the arrays of a graph, which are found by their values."""

    def __init__(self, graph: WrittenGraph) -> None:
        self.arrays = list(graph.weights.items())

    def of(self, layers: Layers, table: npt.NDArray[Any], scale: npt.NDArray[Any] | None) -> dict[str, Any]:
        return {
            "version": 1 if layers.positions is None and layers.token_norm is None else PLAN_VERSION,
            "dim": layers.dim,
            "window": layers.window,
            "table": self.tensor(table)[0],
            "scale": None if scale is None else self.tensor(scale),
            "spread": None if layers.spread is None else self.tensor(layers.spread),
            "bias": None if layers.bias is None else self.tensor(layers.bias),
            "positions": None if layers.positions is None else _modules().positions_plan(self, layers.positions),
            "token_norm": None if layers.token_norm is None else self.norm(layers.token_norm),
            "sublayers": [
                {"pre_norm": one.pre, "norm": self.norm(one.norm), **self._layer(one.layer)} for one in layers.sublayers
            ],
            "final_norm": None if layers.final_norm is None else self.norm(layers.final_norm),
            "pooling": layers.pooling or "tokens",
            "score": None if layers.score is None else self.linear(layers.score),
            "output": self.linear(layers.output),
        }

    def _layer(self, layer: Any) -> dict[str, Any]:
        described: dict[str, Any] | None = None
        match layer:
            case TokenMixingLayer():
                described = self._mlp(layer, by_tokens=True)
            case FeedForwardLayer(value=None):
                described = self._mlp(layer, by_tokens=False)
            case IdentityLayer():
                described = {"mixes": "identity"}
            case _ if not isinstance(layer, FeedForwardLayer):
                described = _modules().layer_plan(self, layer)
        if described is None:
            raise Unsupported
        return described

    def _mlp(self, layer: TokenMixingLayer | FeedForwardLayer, *, by_tokens: bool) -> dict[str, Any]:
        return {
            "mixes": "tokens" if by_tokens else "channels",
            "hidden": len(layer.expand.weight),
            # Mixing tokens multiplies X by the weights from the left, mixing channels from the right.
            "expand": self.linear(layer.expand, as_stored=by_tokens),
            "contract": self.linear(layer.contract, as_stored=by_tokens),
        }

    def norm(self, norm: Norm) -> list[Any]:
        """Return the weight and the bias of a layer norm."""
        if norm.kind != "layer":
            raise Unsupported
        return [self.tensor(norm.weight), self.tensor(norm.bias)]

    def linear(self, linear: Any, *, as_stored: bool = False) -> list[Any]:
        """Return the weight of a layer, multiplied from the right unless `as_stored`, and the bias or None."""
        weight = linear.weight if as_stored else linear.weight.T
        return [self.tensor(weight), None if linear.bias is None else self.tensor(linear.bias)]

    def tensor(self, wanted: Any) -> list[Any]:
        """Return the name of the array with the values of an array or a tensor, and whether it is transposed."""
        values = as_array(wanted)
        templates = [values] if values.ndim < 2 else [values, values.T]
        for (name, array), (number, template) in itertools.product(self.arrays, enumerate(templates)):
            if array.shape != template.shape or array.dtype != template.dtype:
                continue
            if array.flat[0] == template.flat[0] and np.array_equal(array, template):
                return [name, bool(number)]
        raise Unsupported


def _modules() -> Any:
    """Return what describes mixers and positions of PyTorch."""
    return importlib.import_module("mixling.export.native_modules")
