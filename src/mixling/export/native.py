"""The plan of a model file: what the native engine computes, and which tensors of the graph it takes.

The graph computes the same by 70 to 150 operators, which change with the exporter's version. The plan names the parts
of the model instead, each with the tensors that it reads from the file, so that no weight is stored twice. It is the
entry `native` of the file's metadata; a model that the native engine cannot run has none (docs/format.md).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
from torch import Tensor, nn

from mixling.export.native_mixers import layer_plan, positions_plan
from mixling.models.block import Block
from mixling.models.heads import PoolingHead, TokenHead
from mixling.models.model import Model

PLAN_VERSION = 2  # 1 without vectors of positions and a norm of the tokens
_EPSILON = 1e-5  # of the layer norms


class _Unsupported(Exception):
    """The model has a part that the native engine does not know."""


def native_plan(model: Model, graph: Any, table: Tensor, scale: Tensor | None) -> dict[str, Any] | None:
    """Return the plan of a model, None where the native engine cannot run it.

    Args:
        model: in float32, on the CPU.
        graph: the traced GraphProto, before its matrices are stored in 8 bits: tensors are found by their values.
        table: the matrix that the bags of words point into, as the graph has it.
        scale: of its columns, in 8 bits.
    """
    try:
        return NativePlan(graph).of(model, table, scale)
    except _Unsupported:
        return None


class NativePlan:
    """Names the tensors of a graph, which are found by their values."""

    def __init__(self, graph: Any) -> None:
        from onnx import numpy_helper

        self.tensors: list[tuple[str, npt.NDArray[Any]]] = [
            (tensor.name, numpy_helper.to_array(tensor)) for tensor in graph.initializer
        ]

    def of(self, model: Model, table: Tensor, scale: Tensor | None) -> dict[str, Any]:
        embedding = model.embedding
        head = model.head
        encoder = model.encoder
        if not isinstance(head, PoolingHead | TokenHead) or model.class_token is not None:
            raise _Unsupported
        blocks = [block for block in encoder.layers if isinstance(block, Block)]
        return {
            "version": 1 if embedding.positions is None and embedding.norm is None else PLAN_VERSION,
            "dim": embedding.dim,
            "window": embedding.window,
            "table": self.tensor(table)[0],
            "scale": None if scale is None else self.tensor(scale),
            "spread": None if embedding.spread is None else self.tensor(embedding.spread),
            "bias": None if embedding.bias is None else self.tensor(embedding.bias),
            "positions": positions_plan(self, embedding.positions),
            "token_norm": None if embedding.norm is None else self.norm(embedding.norm),
            "sublayers": [layer for block in blocks for layer in self._sublayers(block)],
            "final_norm": None if encoder.norm is None else self.norm(encoder.norm),
            "pooling": head.pooling if isinstance(head, PoolingHead) else "tokens",
            "score": None if isinstance(head, TokenHead) or head.score is None else self.linear(head.score),
            "output": self.linear(head.output),
        }

    def _sublayers(self, block: Block) -> Iterable[dict[str, Any]]:
        if block.cross is not None or block.scales is not None:
            raise _Unsupported
        parts = list(zip(block.mixers, block.mixer_norms, strict=True))
        if block.feed_forward is not None and block.feed_forward_norm is not None:
            parts.append((block.feed_forward, block.feed_forward_norm))
        for layer, norm in parts:
            described = layer_plan(self, layer)
            if described is None:
                raise _Unsupported
            yield {"pre_norm": block.pre, "norm": self.norm(norm), **described}

    def norm(self, norm: nn.Module) -> list[Any]:
        """Return the weight and the bias of a layer norm."""
        if not isinstance(norm, nn.LayerNorm) or abs(norm.eps - _EPSILON) > 1e-12:
            raise _Unsupported
        return [self.tensor(norm.weight), self.tensor(norm.bias)]

    def linear(self, linear: nn.Linear, *, as_stored: bool = False) -> list[Any]:
        """Return the weight, to be multiplied from the right unless `as_stored`, and the bias or None."""
        weight = linear.weight if as_stored else linear.weight.T
        return [self.tensor(weight), None if linear.bias is None else self.tensor(linear.bias)]

    def tensor(self, wanted: Tensor) -> list[Any]:
        """Return the name of the tensor with these values, and whether it is transposed."""
        values = wanted.detach().numpy()
        templates = [values] if values.ndim < 2 else [values, values.T]
        for (name, array), (number, template) in itertools.product(self.tensors, enumerate(templates)):
            if array.shape != template.shape or array.dtype != template.dtype:
                continue
            if array.flat[0] == template.flat[0] and np.array_equal(array, template):
                return [name, bool(number)]
        raise _Unsupported
