"""The parts of a plan that describe mixers and positions of PyTorch; see `mixling.export.native`."""

from __future__ import annotations

from typing import Any, cast

from torch import nn

from mixling.export.layers import LAYER_NORM_EPS
from mixling.export.native import NativePlan, Unsupported
from mixling.layers.hypernetwork import Hypernetwork
from mixling.layers.positions import Positions, RelativeBias
from mixling.mixers.attention import Attention
from mixling.mixers.fourier import Fourier
from mixling.mixers.hypermixing import HyperMixing
from mixling.mixers.linear_attention import LinearAttention
from mixling.mixers.pooling import Pooling
from mixling.mixers.recurrent import LSTM, QRNN, Recurrent
from mixling.mixers.spatial_gating import SpatialGating, TinyAttention
from mixling.mixers.synthesizer import Synthesizer


def layer_plan(plan: NativePlan, layer: nn.Module) -> dict[str, Any] | None:
    """Return what the native engine computes for a mixer; None if it does not know it."""
    if getattr(layer, "causal", False):
        return None
    match layer:  # by the exact class, because a subclass may compute something else
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


def _norm(plan: NativePlan, norm: nn.Module) -> list[Any]:
    """Return the weight and the bias of a layer norm."""
    if not isinstance(norm, nn.LayerNorm) or abs(norm.eps - LAYER_NORM_EPS) > 1e-12:
        raise Unsupported
    return [plan.tensor(norm.weight), plan.tensor(norm.bias)]


def _gating(plan: NativePlan, layer: SpatialGating) -> dict[str, Any]:
    return {
        "mixes": "gating",
        "hidden": layer.gate_dim,
        "variant": layer.variant,
        "dense": layer.dense,
        "expand": plan.linear(layer.expand),
        "gate_norm": _norm(plan, layer.norm),
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
        "output_norm": None if layer.norm is None else _norm(plan, layer.norm),
    }


def _network(plan: NativePlan, module: Hypernetwork) -> dict[str, Any]:
    return {
        name: [plan.tensor(part.weight.T), None if part.bias is None else plan.tensor(part.bias)]
        for name, part in (("first", module.first), ("second", module.second))
    }
