"""Writers of mixers and positions; see `mixling.export.write`."""

from __future__ import annotations

import math

import numpy as np
from torch import nn

from mixling.export.scope import Scope, Writers
from mixling.export.write import write_linear
from mixling.export.write_recurrent import RECURRENT_WRITERS
from mixling.layers.hypernetwork import HeadLinear, Hypernetwork
from mixling.layers.positions import Positions, PublishedPositions, RelativeBias
from mixling.mixers.attention import Attention
from mixling.mixers.fourier import Fourier
from mixling.mixers.hypermixing import HyperMixing
from mixling.mixers.linear_attention import LinearAttention
from mixling.mixers.pooling import Pooling
from mixling.mixers.remixing import Remixing
from mixling.mixers.spatial_gating import SpatialGating, TinyAttention
from mixling.mixers.synthesizer import Synthesizer
from mixling.runtime.onnx.graph import DOUBLE, FLOAT, INT64

_LOWEST = float(np.finfo(np.float32).min)


def _write_positions(scope: Scope, module: Positions, x: str) -> str:
    graph = scope.graph
    if module.weight is not None:
        return graph.add("Add", x, graph.slice(graph.weight(module.weight), (0,), (0,), scope.length))
    if module.table is None:
        return x
    # As `layers.positions` computes them beyond its table, which would take space in the file and be rounded to 8 bits.
    dim = module.table.shape[1]
    rates = np.exp(np.arange(0, dim, 2) * (-math.log(10_000.0) / dim)) / (2 * math.pi)
    numbers = graph.add("Unsqueeze", graph.add("Cast", scope.indices, to=DOUBLE), graph.integers(1))
    angles = _angles(scope, graph.add("Mul", numbers, graph.constant(rates, np.float64)))
    waves = [graph.add("Unsqueeze", graph.add(name, angles), graph.integers(2)) for name in ("Sin", "Cos")]
    rows = graph.add("Reshape", graph.add("Concat", *waves, axis=2), graph.integers(0, -1))
    return graph.add("Add", x, graph.slice(rows, (1,), (0,), (dim,)) if dim % 2 else rows)


def _write_published_positions(scope: Scope, module: PublishedPositions, x: str) -> str:
    graph = scope.graph
    rates, phases = (np.array(part) for part in module.turns())
    numbers = graph.add("Unsqueeze", graph.add("Cast", scope.indices, to=DOUBLE), graph.integers(1))
    turns = graph.add("Mul", numbers, graph.constant(rates, np.float64))
    # Positions are counted from 1.
    turns = graph.add("Add", turns, graph.constant(rates + phases, np.float64))
    return graph.add(
        "Add",
        graph.add("Mul", x, graph.constant(math.sqrt(module.dim))),
        graph.add("Sin", _angles(scope, turns)),
    )


def _angles(scope: Scope, turns: str) -> str:
    """Return angles in single precision of turns in double precision."""
    graph = scope.graph
    rest = graph.add("Cast", graph.add("Sub", turns, graph.add("Round", turns)), to=FLOAT)
    return graph.add("Mul", rest, graph.constant(2 * math.pi))


def _write_spatial_gating(scope: Scope, module: SpatialGating, x: str) -> str:
    graph = scope.graph
    length = scope.length
    masked = module.mask_padding
    x = scope.without_padding(x) if masked else x
    z = gated = graph.add("Gelu", scope.write(module.expand, x), approximate="none")
    if module.variant == "split":
        z, gated = graph.split("Split", 2, z, axis=-1, num_outputs=2)
    normed = scope.write(module.norm, gated)
    normed = scope.without_padding(normed) if masked else normed
    if module.dense:
        weight = graph.slice(graph.weight(module.weight), (0, 1), (0, 0), graph.add("Concat", length, length, axis=0))
    else:
        index = graph.add("Add", scope.distances, graph.constant(module.max_len - 1, np.int64))
        weight = graph.add("Gather", graph.weight(module.weight), index, axis=0)
    bias = graph.add("Unsqueeze", graph.weight(module.bias), graph.integers(1))
    gate = graph.add("Add", graph.add("MatMul", weight, normed), graph.slice(bias, (0,), (0,), length))
    if module.attention is not None:
        gate = graph.add("Add", gate, _tiny_attention(scope, module.attention, x, masked=masked))
    if module.variant != "linear":
        gate = graph.add("Add" if module.variant == "additive" else "Mul", z, gate)
    return scope.write(module.contract, gate)


def _tiny_attention(scope: Scope, module: TinyAttention, x: str, *, masked: bool) -> str:
    graph = scope.graph
    query, keys, values = graph.split("Split", 3, scope.write(module.qkv, x), axis=-1, num_outputs=3)
    query = graph.add("Mul", query, graph.constant(module.scale))
    scores = graph.add("MatMul", query, graph.add("Transpose", keys, perm=(0, 2, 1)))
    if masked:
        scores = graph.add("Where", scope.seen(), scores, graph.constant(_LOWEST))
    weights = graph.add("Softmax", scores, axis=-1)
    return scope.write(module.out, graph.add("MatMul", weights, values))


def _write_attention(scope: Scope, module: Attention, x: str) -> str:
    graph = scope.graph
    heads = module.num_heads
    x = scope.without_padding(x)
    query = _by_head(scope, scope.write(module.query, x), heads)
    keys = _by_head(scope, scope.write(module.key, x), heads, perm=(0, 2, 3, 1))
    values = _by_head(scope, scope.write(module.value, x), heads)
    scores = graph.add("Mul", graph.add("MatMul", query, keys), graph.constant(module.scale))
    bias = graph.constant(0.0) if module.relative is None else _relative_bias(scope, module.relative)
    seen = graph.add("Unsqueeze", scope.seen(), graph.integers(1))
    scores = graph.add("Add", scores, graph.add("Where", seen, bias, graph.constant(_LOWEST / 2)))
    mixed = graph.add("MatMul", graph.add("Softmax", scores, axis=-1), values)
    return scope.write(module.out, _joined(scope, mixed, heads * module.head_dim))


def _relative_bias(scope: Scope, module: RelativeBias) -> str:
    """Return the biases (H, N, N)."""
    graph = scope.graph
    reach = module.reach
    distances = scope.distances
    if module.bucketed:
        distances = graph.add("Max", distances, graph.constant(-reach, np.int64))
        distances = graph.add("Min", distances, graph.constant(reach, np.int64))
    rows = graph.weight(module.rows)
    index = graph.add("Gather", rows, graph.add("Add", distances, graph.constant(reach, np.int64)), axis=0)
    return graph.add("Transpose", graph.add("Gather", graph.weight(module.weight), index, axis=0), perm=(2, 0, 1))


def _write_hypermixing(scope: Scope, module: HyperMixing, x: str) -> str:
    graph = scope.graph

    def split(y: str) -> str:
        by_head = graph.add("Reshape", y, graph.integers(0, 0, module.num_heads, module.head_dim))
        return graph.add("Transpose", by_head, perm=(2, 0, 1, 3))

    x = scope.without_padding(x)
    read = split(scope.write(module.positions, x))
    w1 = scope.write(module.keys, read)
    w2 = w1 if module.queries is None else scope.write(module.queries, read)
    hidden = graph.add("MatMul", graph.add("Transpose", w1, perm=(0, 1, 3, 2)), split(x))
    y = graph.add("MatMul", w2, graph.add("Gelu", hidden, approximate="none"))
    y = graph.add("Reshape", graph.add("Transpose", y, perm=(1, 2, 0, 3)), graph.integers(0, 0, module.dim))
    return y if module.norm is None else scope.write(module.norm, y)


def _write_hypernetwork(scope: Scope, module: Hypernetwork, x: str) -> str:
    features = scope.graph.add("Gelu", scope.write(module.first, x), approximate="none")
    return scope.write(module.second, features)


def _write_head_linear(scope: Scope, module: HeadLinear, x: str) -> str:
    graph = scope.graph
    if module.num_heads == 1:
        weight = graph.weight(module.weight, transposed=True)
    else:
        shape = graph.integers(module.num_heads, 1, -1, module.weight.shape[1])
        weight = graph.add("Transpose", graph.add("Reshape", graph.weight(module.weight), shape), perm=(0, 1, 3, 2))
    y = graph.add("MatMul", x, weight)
    if module.bias is None:
        return y
    bias = graph.weight(module.bias)
    if module.num_heads > 1:
        bias = graph.add("Reshape", bias, graph.integers(module.num_heads, 1, 1, -1))
    return graph.add("Add", y, bias)


def _write_linear_attention(scope: Scope, module: LinearAttention, x: str) -> str:
    graph = scope.graph
    x = scope.without_padding(x)
    query = _features(scope, _by_head(scope, scope.write(module.query, x), module.num_heads))
    keys = _features(scope, _by_head(scope, scope.write(module.key, x), module.num_heads))
    keys = graph.add("Where", graph.add("Unsqueeze", scope.real, graph.integers(1)), keys, graph.constant(0.0))
    values = _by_head(scope, scope.write(module.value, x), module.num_heads)
    read = graph.add("MatMul", query, graph.add("MatMul", graph.add("Transpose", keys, perm=(0, 1, 3, 2)), values))
    total = graph.add("Transpose", graph.add("ReduceSum", keys, graph.integers(2), keepdims=1), perm=(0, 1, 3, 2))
    normalizer = graph.add("Add", graph.add("MatMul", query, total), graph.constant(module.eps))
    return scope.write(module.out, _joined(scope, graph.add("Div", read, normalizer), module.dim))


def _features(scope: Scope, x: str) -> str:
    """Return phi(x) = elu(x) + 1."""
    return scope.graph.add("Add", scope.graph.add("Elu", x), scope.graph.constant(1.0))


def _by_head(scope: Scope, x: str, num_heads: int, *, perm: tuple[int, ...] = (0, 2, 1, 3)) -> str:
    """Return (B, H, N, E) of (B, N, H E), or the axes of (B, N, H, E) in another order."""
    graph = scope.graph
    return graph.add("Transpose", graph.add("Reshape", x, graph.integers(0, 0, num_heads, -1)), perm=perm)


def _joined(scope: Scope, x: str, width: int) -> str:
    """Return (B, N, H E) of (B, H, N, E)."""
    graph = scope.graph
    return graph.add("Reshape", graph.add("Transpose", x, perm=(0, 2, 1, 3)), graph.integers(0, 0, width))


def _write_synthesizer(scope: Scope, module: Synthesizer, x: str) -> str:
    graph = scope.graph
    seen = graph.add("Unsqueeze", scope.seen(), graph.integers(1))
    scores = graph.add("Where", seen, _relative_bias(scope, module.relative), graph.constant(_LOWEST))
    values = _by_head(scope, scope.write(module.value, scope.without_padding(x)), module.num_heads)
    mixed = graph.add("MatMul", graph.add("Softmax", scores, axis=-1), values)
    return scope.write(module.out, _joined(scope, mixed, module.dim))


def _write_remixing(scope: Scope, module: Remixing, x: str) -> str:
    graph = scope.graph
    x = scope.without_padding(x)
    corner = graph.add("Concat", scope.length, scope.length, axis=0)
    scores = graph.slice(graph.weight(module.scores), (0, 1), (0, 0), corner)
    weights = graph.add("Softmax", graph.add("Where", scope.seen(), scores, graph.constant(_LOWEST)), axis=-1)
    gate = graph.add("Gelu", scope.write(module.gate, x), approximate="none")
    inner = graph.add("Mul", gate, scope.write(module.value, x))
    composed = mixed = graph.add("MatMul", weights, inner)
    if module.alpha is not None:
        match module.alpha:
            case float():
                share = graph.constant(module.alpha)
            case nn.Linear():
                share = graph.add("Sigmoid", scope.write(module.alpha, x))
            case _:
                share = graph.add("Sigmoid", graph.weight(module.alpha))
        product = graph.add("Mul", share, graph.add("Mul", mixed, inner))
        rest = graph.add("Sub", graph.constant(1.0), share)
        composed = graph.add("Add", product, graph.add("Mul", rest, graph.add("Sub", inner, mixed)))
    if module.choice is not None:
        chosen = graph.add("Sigmoid", scope.write(module.choice, x))
        composed = graph.add("Add", mixed, graph.add("Mul", chosen, graph.add("Sub", composed, mixed)))
    y = scope.write(module.out, composed)
    return graph.add("Add", y, inner) if module.residual else y


def _write_pooling(scope: Scope, module: Pooling, x: str) -> str:
    graph = scope.graph
    axis = scope.graph.integers(1)
    count = graph.add("ReduceSum", graph.add("Cast", scope.real, to=FLOAT), axis, keepdims=1)
    if module.pooling == "max":
        y = graph.add("ReduceMax", scope.without_padding(x, _LOWEST), axis, keepdims=1)
        y = graph.add("Where", graph.add("Greater", count, graph.constant(0.0)), y, graph.constant(0.0))
    else:
        y = graph.add("ReduceSum", scope.without_padding(x), axis, keepdims=1)
        y = graph.add("Div", y, graph.add("Max", count, graph.constant(1.0)))
    return graph.add("Expand", y, graph.add("Shape", x))


def _write_fourier(scope: Scope, module: Fourier, x: str) -> str:
    """As `mixers.fourier` computes it in a graph: by matrices of cosines and sines, made from integers."""
    graph = scope.graph
    zero = scope.graph.constant(0, np.int64)
    one = scope.graph.constant(1, np.int64)

    def waves(positions: str, size: str) -> tuple[str, str]:
        """Return cos and sin of 2 pi i j / size for positions (..., N) and sizes (..., 1, 1)."""
        rows, columns = (graph.add("Unsqueeze", positions, graph.integers(place)) for place in (-1, -2))
        size = graph.add("Clip", size, one)  # a text of padding only has none
        whole = graph.add("Mod", graph.add("Mul", rows, columns), size)
        turns = graph.add("Div", *(graph.add("Cast", value, to=FLOAT) for value in (whole, size)))
        angles = graph.add("Mul", turns, graph.constant(2 * math.pi))
        return graph.add("Cos", angles), graph.add("Sin", angles)

    width = graph.add("Squeeze", graph.add("Shape", x, start=2, end=3))
    cos, sin = waves(graph.add("Range", zero, width, one), width)
    if module.per_length:
        x = scope.without_padding(x)
        real = graph.add("Squeeze", graph.add("Cast", scope.real, to=INT64), graph.integers(2))
        sizes = graph.add("ReduceSum", real, graph.integers(1), keepdims=1)
        numbers = graph.add("Sub", graph.add("CumSum", real, one), one)
        token_cos, token_sin = waves(numbers, graph.add("Unsqueeze", sizes, graph.integers(2)))
    else:
        token_cos, token_sin = waves(scope.indices, graph.add("Squeeze", scope.length))
    even = graph.add("MatMul", token_cos, graph.add("MatMul", x, cos))
    return graph.add("Sub", even, graph.add("MatMul", token_sin, graph.add("MatMul", x, sin)))


def _write_layer_norm(scope: Scope, module: nn.LayerNorm, x: str) -> str:
    weights = [scope.graph.weight(weight) for weight in (module.weight, module.bias)]
    return scope.graph.add("LayerNormalization", x, *weights, axis=-1, epsilon=module.eps)


MODULE_WRITERS: Writers = {
    **RECURRENT_WRITERS,
    Attention: _write_attention,
    Fourier: _write_fourier,
    HeadLinear: _write_head_linear,
    HyperMixing: _write_hypermixing,
    Hypernetwork: _write_hypernetwork,
    LinearAttention: _write_linear_attention,
    Pooling: _write_pooling,
    Positions: _write_positions,
    PublishedPositions: _write_published_positions,
    Remixing: _write_remixing,
    SpatialGating: _write_spatial_gating,
    Synthesizer: _write_synthesizer,
    nn.LayerNorm: _write_layer_norm,
    nn.Linear: write_linear,
}
