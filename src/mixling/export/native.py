"""The plan of a model file: what the native engine computes, and which tensors of the graph it takes.

The graph computes the same by 70 to 150 operators, which change with the exporter's version. The plan names the parts
of the model instead, each with the tensors that it reads from the file, so that no weight is stored twice. It is the
entry `native` of the file's metadata; a model that the native engine cannot run has none (docs/format.md).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any, cast

import numpy as np
import numpy.typing as npt
from torch import Tensor, nn

from mixling.layers.hypernetwork import Hypernetwork
from mixling.layers.positions import Positions, RelativeBias
from mixling.mixers.attention import Attention
from mixling.mixers.fourier import Fourier
from mixling.mixers.hypermixing import HyperMixing
from mixling.mixers.identity import Identity
from mixling.mixers.linear_attention import LinearAttention
from mixling.mixers.pooling import Pooling
from mixling.mixers.recurrent import LSTM, QRNN, Recurrent
from mixling.mixers.spatial_gating import SpatialGating, TinyAttention
from mixling.mixers.synthesizer import Synthesizer
from mixling.mixers.token_mlp import TokenMLP
from mixling.models.block import Block, FeedForward
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


def layer_plan(plan: NativePlan, layer: nn.Module) -> dict[str, Any] | None:
    """Return what the native engine computes for a mixer or a feed-forward; None if it does not know it."""
    if getattr(layer, "causal", False):
        return None
    match layer:  # by the exact class, because a subclass may compute something else
        case TokenMLP() if type(layer) is TokenMLP:
            return _mlp(plan, layer, by_tokens=True)
        case FeedForward() if type(layer) is FeedForward and layer.value is None:
            return _mlp(plan, layer, by_tokens=False)
        case Identity() if type(layer) is Identity:
            return {"mixes": "identity"}
        case Pooling() if type(layer) is Pooling:
            return {"mixes": layer.pooling}
        case Fourier() if type(layer) is Fourier and layer.per_length:
            return {"mixes": "fourier"}
        case SpatialGating() if type(layer) is SpatialGating and layer.mask_padding:
            return _gating(plan, layer)
        case HyperMixing() if type(layer) is HyperMixing and type(layer.positions) is Positions:
            return _hyper(plan, layer)
        case Attention() if type(layer) is Attention:
            return _attention(plan, layer)
        case Synthesizer() if type(layer) is Synthesizer:
            return _synthesizer(plan, layer)
        case LinearAttention() if type(layer) is LinearAttention:
            return _linear_attention(plan, layer)
        case Recurrent() if type(layer) is Recurrent:
            return _recurrent(plan, layer)
    return None


def positions_plan(plan: NativePlan, module: Positions | None) -> Any:
    """Return the name of learned positions, "sinusoidal", or None."""
    if module is None or (module.weight is None and module.table is None):
        return None
    return "sinusoidal" if module.weight is None else plan.tensor(module.weight)


def _mlp(plan: NativePlan, layer: TokenMLP | FeedForward, *, by_tokens: bool) -> dict[str, Any]:
    return {
        "mixes": "tokens" if by_tokens else "channels",
        "hidden": layer.expand.out_features,
        # Mixing tokens multiplies X by the weights from the left, mixing channels from the right.
        "expand": plan.linear(layer.expand, as_stored=by_tokens),
        "contract": plan.linear(layer.contract, as_stored=by_tokens),
    }


def _gating(plan: NativePlan, layer: SpatialGating) -> dict[str, Any]:
    return {
        "mixes": "gating",
        "hidden": layer.gate_dim,
        "variant": layer.variant,
        "dense": layer.dense,
        "expand": plan.linear(layer.expand),
        "gate_norm": plan.norm(layer.norm),
        "spatial": [plan.tensor(layer.weight), plan.tensor(layer.bias)],
        "attention": None if layer.attention is None else _tiny_attention(plan, layer.attention),
        "contract": plan.linear(layer.contract),
    }


def _tiny_attention(plan: NativePlan, layer: TinyAttention) -> dict[str, Any]:
    return {
        "heads": 1,
        "hidden": layer.out.in_features,
        "scale": layer.scale,
        "qkv": plan.linear(layer.qkv),
        "out": plan.linear(layer.out),
    }


def _attention(plan: NativePlan, layer: Attention) -> dict[str, Any]:
    return {
        "mixes": "attention",
        "heads": layer.num_heads,
        "hidden": layer.head_dim,
        "scale": layer.scale,
        "query": plan.linear(layer.query),
        "key": plan.linear(layer.key),
        "value": plan.linear(layer.value),
        "out": plan.linear(layer.out),
        "biases": None if layer.relative is None else _biases(plan, layer.relative),
    }


def _synthesizer(plan: NativePlan, layer: Synthesizer) -> dict[str, Any]:
    return {
        "mixes": "attention",
        "heads": layer.num_heads,
        "hidden": layer.dim // layer.num_heads,
        "scale": 1.0,
        "query": None,  # the scores are the biases alone
        "value": plan.linear(layer.value),
        "out": plan.linear(layer.out),
        "biases": _biases(plan, layer.relative),
    }


def _linear_attention(plan: NativePlan, layer: LinearAttention) -> dict[str, Any]:
    return {
        "mixes": "linear attention",
        "heads": layer.num_heads,
        "hidden": layer.head_dim,
        "eps": layer.eps,
        "query": plan.linear(layer.query),
        "key": plan.linear(layer.key),
        "value": plan.linear(layer.value),
        "out": plan.linear(layer.out),
    }


def _recurrent(plan: NativePlan, layer: Recurrent) -> dict[str, Any] | None:
    cells = list(layer.forwards)
    if not {type(cell) for cell in (*cells, *layer.backwards)} < {LSTM, QRNN}:
        return None
    directions = [cells, list(layer.backwards)] if layer.bidirectional else [cells]
    return {
        "mixes": "recurrent",
        "cell": "lstm" if isinstance(cells[0], LSTM) else "qrnn",
        "hidden": cast(LSTM | QRNN, cells[0]).hidden_dim,
        "window": cells[0].window if isinstance(cells[0], QRNN) else 1,
        "layers": [[_cell(plan, cast(LSTM | QRNN, cell)) for cell in pair] for pair in zip(*directions, strict=True)],
        "project": None if layer.project is None else plan.linear(layer.project),
    }


def _cell(plan: NativePlan, cell: LSTM | QRNN) -> dict[str, Any]:
    if isinstance(cell, QRNN):
        return {"input": plan.linear(cell.gates)}
    return {
        name: [
            plan.tensor(cell.cell.get_parameter(f"weight_{part}_l0").T),
            plan.tensor(cell.cell.get_parameter(f"bias_{part}_l0")),
        ]
        for name, part in (("input", "ih"), ("state", "hh"))
    }


def _biases(plan: NativePlan, module: RelativeBias) -> dict[str, Any]:
    return {"weight": plan.tensor(module.weight), "number": len(module.weight), "rows": module.rows.tolist()}


def _hyper(plan: NativePlan, layer: HyperMixing) -> dict[str, Any]:
    return {
        "mixes": "hyper",
        "heads": layer.num_heads,
        "hidden": layer.hidden_dim // layer.num_heads,
        "positions": positions_plan(plan, cast(Positions, layer.positions)),
        "keys": _network(plan, layer.keys),
        "queries": None if layer.queries is None else _network(plan, layer.queries),
        "output_norm": None if layer.norm is None else plan.norm(layer.norm),
    }


def _network(plan: NativePlan, module: Hypernetwork) -> dict[str, Any]:
    return {
        name: [plan.tensor(part.weight.T), None if part.bias is None else plan.tensor(part.bias)]
        for name, part in (("first", module.first), ("second", module.second))
    }
