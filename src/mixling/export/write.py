"""Write the graph of a network whose layers all have a writer, without tracing it.

Tracing takes 3 to 6 seconds for a graph that we know. A writer adds the nodes of one layer, in evaluation mode; it is
registered for the exact class, because a subclass may compute something else. A model with a layer or an option that
has no writer is traced by torch (`mixling.export.trace`). tests/export/test_write.py compares both with torch.
"""

from __future__ import annotations

import importlib

import numpy as np

from mixling.arrays import Float32, Int8
from mixling.export.graph_builder import END, GraphBuilder, WrittenGraph
from mixling.export.layers import FeedForwardLayer, IdentityLayer, Layers, LinearLayer, Norm, Sublayer, TokenMixingLayer
from mixling.export.scope import NoWriter, Scope, Writers
from mixling.runtime.onnx.graph import BOOL, FLOAT, INT32


def write_graph(
    layers: Layers, table: Float32 | Int8, scale: Float32 | None, *, has_weights: bool
) -> WrittenGraph | None:
    """Return the graph of a network with the inputs and outputs of a model file; None if a layer has no writer.

    Args:
        table: the matrix whose rows are summed.
        scale: of its columns, in 8 bits; None: it holds floats.
        has_weights: whether feature indices have weights.
    """
    graph = GraphBuilder({**layers.names, id(table): "table", id(scale): "scale"})
    sums = graph.add("Gather", graph.weight(table), "positions", axis=0)
    if scale is not None:
        sums = graph.add("Cast", sums, to=FLOAT)
    if has_weights:
        sums = graph.add("Mul", sums, graph.add("Unsqueeze", "weights", graph.integers(2)))
    rows = graph.add("ReduceSum", sums, graph.integers(1), keepdims=0)
    if scale is not None:
        rows = graph.add("Mul", rows, graph.weight(scale))
    spread = layers.spread
    if spread is not None:
        rows = graph.add("MatMul", rows, graph.weight(spread))
    row_dim = (table if spread is None else spread).shape[1]
    known = graph.add("Concat", graph.constant(np.zeros((1, row_dim))), "cached", rows, axis=0)
    real = graph.add("Unsqueeze", graph.add("Cast", "index", to=BOOL), graph.integers(2))
    scope = Scope(graph, _writers(layers), graph.add("Shape", "index", start=1, end=2), real)
    x = graph.add("Gather", known, "index", axis=0)
    try:
        x = _write_embedding(scope, layers, x)
        for sublayer in layers.sublayers:
            x = _write_sublayer(scope, sublayer, x)
        x = x if layers.final_norm is None else scope.write(layers.final_norm, x)
        x = scope.write(layers.output, x) if layers.pooling is None else _write_pooling_head(scope, layers, x)
    except NoWriter:
        return None
    bags = ("new_words", "bag")
    inputs = {
        "cached": (FLOAT, ("cached_words", row_dim)),
        "positions": (INT32, bags),
        "index": (INT32, ("texts", "tokens")),
    }
    if has_weights:
        inputs["weights"] = (FLOAT, bags)
    tokens = () if layers.pooling is not None else ("tokens",)
    logits = ("texts", *tokens, len(layers.output.weight))
    return graph.build(inputs, {"logits": (x, logits), "rows": (rows, ("new_words", row_dim))})


def _write_embedding(scope: Scope, layers: Layers, x: str) -> str:
    graph = scope.graph
    w = layers.window
    dim = layers.dim
    if w:
        padded = graph.add("Pad", x, graph.integers(0, w, 0, 0, w, 0))
        parts = []
        for offset in range(2 * w + 1):  # part `offset` of the word that is w - offset to the left
            last = offset - 2 * w or END
            parts.append(graph.slice(padded, (1, 2), (offset, offset * dim), (last, (offset + 1) * dim)))
        x = parts[0]
        for part in parts[1:]:
            x = graph.add("Add", x, part)
    if layers.bias is not None:
        x = graph.add("Add", x, graph.weight(layers.bias))
    for layer in (layers.positions, layers.token_norm):
        x = x if layer is None else scope.write(layer, x)
    return x


def _write_sublayer(scope: Scope, sublayer: Sublayer, x: str) -> str:
    norm = sublayer.norm
    y = scope.write(sublayer.layer, scope.write(norm, x) if sublayer.pre else x)
    x = scope.graph.add("Add", x, y)
    return x if sublayer.pre else scope.write(norm, x)


def _write_feed_forward(scope: Scope, layer: FeedForwardLayer, x: str) -> str:
    hidden = scope.graph.add(
        "Gelu", scope.write(layer.expand, x), approximate="none" if layer.value is None else "tanh"
    )
    if layer.value is not None:
        hidden = scope.graph.add("Mul", hidden, scope.write(layer.value, x))
    return scope.write(layer.contract, hidden)


def _write_token_mixing(scope: Scope, layer: TokenMixingLayer, x: str) -> str:
    graph = scope.graph
    length = scope.length

    def by_token(bias: Float32 | None) -> str:
        """Return a bias of the token axis; ONNX Runtime does this once, on loading."""
        return graph.add("Unsqueeze", graph.weight(bias), graph.integers(1))

    # The weights stand to the left of (N, D), so that nothing is transposed.
    expand = graph.slice(graph.weight(layer.expand.weight), (1,), (0,), length)
    hidden = graph.add("MatMul", expand, scope.without_padding(x))
    hidden = graph.add("Gelu", graph.add("Add", hidden, by_token(layer.expand.bias)), approximate="none")
    contract = graph.slice(graph.weight(layer.contract.weight), (0,), (0,), length)
    bias = graph.slice(by_token(layer.contract.bias), (0,), (0,), length)
    return graph.add("Add", graph.add("MatMul", contract, hidden), bias)


def _write_identity(scope: Scope, layer: IdentityLayer, x: str) -> str:
    return x


def write_linear(scope: Scope, layer: LinearLayer, x: str) -> str:
    """Write a linear layer, or PyTorch's, which has the same attributes."""
    graph = scope.graph
    y = graph.add("MatMul", x, graph.weight(layer.weight, transposed=True))
    return y if layer.bias is None else graph.add("Add", y, graph.weight(layer.bias))


def _write_norm(scope: Scope, norm: Norm, x: str) -> str:
    graph = scope.graph
    if norm.kind == "layer":
        weights = [graph.weight(weight) for weight in (norm.weight, norm.bias)]
        return graph.add("LayerNormalization", x, *weights, axis=-1, epsilon=norm.eps)
    square = graph.add("ReduceMean", graph.add("Mul", x, x), graph.integers(-1))
    size = graph.add("Sqrt", graph.add("Add", square, graph.constant(norm.eps)))
    return graph.add("Mul", graph.add("Div", x, size), graph.weight(norm.weight))


def _write_pooling_head(scope: Scope, layers: Layers, x: str) -> str:
    graph = scope.graph
    tokens = scope.graph.integers(1)
    lowest = float(np.finfo(np.float32).min)
    pools = []
    zeroed = scope.without_padding(x)
    if layers.score is not None:
        scores = scope.without_padding(scope.write(layers.score, x), lowest)
        weights = graph.add("Transpose", graph.add("Softmax", scores, axis=1), perm=(0, 2, 1))
        pools.append(graph.add("Squeeze", graph.add("MatMul", weights, zeroed), tokens))
    real = graph.add("Cast", scope.real, to=FLOAT)
    number = graph.add("ReduceSum", real, tokens, keepdims=0)  # (B, 1)
    if layers.pooling in ("mean", "all"):
        total = graph.add("ReduceSum", zeroed, tokens, keepdims=0)
        pools.append(graph.add("Div", total, graph.add("Max", number, graph.constant(1.0))))
    if layers.pooling in ("max", "all"):
        highest = graph.add("ReduceMax", scope.without_padding(x, lowest), tokens, keepdims=0)
        some = graph.add("Cast", number, to=BOOL)
        pools.append(graph.add("Where", some, highest, graph.constant(0.0)))
    pool = pools[0] if len(pools) == 1 else graph.add("Concat", *pools, axis=1)
    return graph.add("Gemm", pool, *map(graph.weight, (layers.output.weight, layers.output.bias)), transB=1)


WRITERS: Writers = {
    FeedForwardLayer: _write_feed_forward,
    IdentityLayer: _write_identity,
    LinearLayer: write_linear,
    Norm: _write_norm,
    TokenMixingLayer: _write_token_mixing,
}


def _writers(layers: Layers) -> Writers:
    """Return for each class its writer; writers of modules of PyTorch only where there are such modules."""
    parts = [layers.positions, *(sublayer.layer for sublayer in layers.sublayers)]
    if all(part is None or type(part) in WRITERS for part in parts):
        return WRITERS
    return all_writers()


def all_writers() -> Writers:
    """Return for each class its writer, PyTorch's modules included."""
    modules: Writers = importlib.import_module("mixling.export.write_mixers").MODULE_WRITERS
    return {**WRITERS, **modules}
