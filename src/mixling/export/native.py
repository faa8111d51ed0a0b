"""The plan of a model file: what the native engine computes, and which tensors of the graph it takes.

The graph says the same in 70 to 150 operators, which change with the exporter's version. The plan names the parts of
the model instead, each with the tensors that it reads from the file, so that no weight is stored twice. It is the entry
`native` of the file's metadata; a model that the native engine cannot run has none (docs/format.md).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
from torch import Tensor, nn

from mixling.mixers.token_mlp import TokenMLP
from mixling.models.block import Block, FeedForward
from mixling.models.heads import PoolingHead, TokenHead
from mixling.models.model import Model

PLAN_VERSION = 1
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
        return _Plan(graph).of(model, table, scale)
    except _Unsupported:
        return None


class _Plan:
    def __init__(self, graph: Any) -> None:
        from onnx import numpy_helper

        self.tensors: list[tuple[str, npt.NDArray]] = [
            (tensor.name, numpy_helper.to_array(tensor)) for tensor in graph.initializer
        ]

    def of(self, model: Model, table: Tensor, scale: Tensor | None) -> dict[str, Any]:
        embedding, head, encoder = model.embedding, model.head, model.encoder
        if (
            embedding.positions is not None
            or embedding.norm is not None
            or not isinstance(head, PoolingHead | TokenHead)
        ):
            raise _Unsupported
        blocks = [block for block in encoder.layers if isinstance(block, Block)]
        return {
            "version": PLAN_VERSION,
            "dim": embedding.dim,
            "window": embedding.window,
            "table": self._find(table)[0],
            "scale": None if scale is None else self._find(scale),
            "spread": None if embedding.spread is None else self._find(embedding.spread),
            "bias": None if embedding.bias is None else self._find(embedding.bias),
            "sublayers": [layer for block in blocks for layer in self._sublayers(block)],
            "final_norm": None if encoder.norm is None else self._norm(encoder.norm),
            "pooling": head.pooling if isinstance(head, PoolingHead) else "tokens",
            "score": None if isinstance(head, TokenHead) or head.score is None else self._linear(head.score),
            "output": self._linear(head.output),
        }

    def _sublayers(self, block: Block) -> Iterable[dict[str, Any]]:
        if block.cross is not None:
            raise _Unsupported
        parts = list(zip(block.mixers, block.mixer_norms, strict=True))
        if block.feed_forward is not None and block.feed_forward_norm is not None:
            parts.append((block.feed_forward, block.feed_forward_norm))
        for layer, norm in parts:
            by_tokens = type(layer) is TokenMLP and not layer.causal
            by_channels = type(layer) is FeedForward and layer.value is None
            if not by_tokens and not by_channels:
                raise _Unsupported
            assert isinstance(layer, TokenMLP | FeedForward)
            hidden = layer.expand.out_features
            yield {
                "mixes": "tokens" if by_tokens else "channels",
                "hidden": hidden,
                "pre_norm": block.pre,
                "norm": self._norm(norm),
                # Over tokens X stands to the right of the weights, over channels to the left.
                "expand": self._linear(layer.expand, as_stored=by_tokens),
                "contract": self._linear(layer.contract, as_stored=by_tokens),
            }

    def _norm(self, norm: nn.Module) -> list[Any]:
        if not isinstance(norm, nn.LayerNorm) or abs(norm.eps - _EPSILON) > 1e-12:
            raise _Unsupported
        return [self._find(norm.weight), self._find(norm.bias)]

    def _linear(self, linear: nn.Linear, *, as_stored: bool = False) -> list[Any]:
        weight = linear.weight if as_stored else linear.weight.T
        return [self._find(weight), None if linear.bias is None else self._find(linear.bias)]

    def _find(self, wanted: Tensor) -> list[Any]:
        """Return the name of the tensor with these values, and whether it is transposed."""
        values = wanted.detach().numpy()
        templates = [values] if values.ndim < 2 else [values, values.T]
        for (name, array), (number, template) in itertools.product(self.tensors, enumerate(templates)):
            if array.shape == template.shape and array.dtype == template.dtype and np.array_equal(array, template):
                return [name, bool(number)]
        raise _Unsupported
