"""Write the graph of a model whose modules all have a writer, without tracing it.

Tracing takes 3 to 6 seconds for a graph that we know. A writer adds the nodes of one module, in evaluation mode; it is
registered for the exact class, because a subclass may compute something else. A model with a module or an option that
has no writer is traced by torch (`mixling.export.onnx`). tests/export/test_write.py compares both with torch.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from torch import Tensor, nn

from mixling.export.graph_builder import END, GraphBuilder
from mixling.export.scope import NoWriter, Scope, Writers
from mixling.export.write_mixers import MIXER_WRITERS
from mixling.layers.norms import RMSNorm
from mixling.models.block import Block, FeedForward
from mixling.models.embedding import ProjectionEmbedding
from mixling.models.encoder import Encoder
from mixling.models.heads import PoolingHead, TokenHead
from mixling.models.model import Model


def write_graph(model: Model, table: Tensor, scale: Tensor | None, *, has_weights: bool) -> Any | None:
    """Return the GraphProto of a model with the inputs and outputs of a model file; None if a module has no writer.

    Args:
        model: in float32, on the CPU.
        table: the matrix whose rows are summed.
        scale: of its columns, in 8 bits; None: it holds floats.
        has_weights: whether feature indices have weights.
    """
    from onnx import TensorProto

    if model.class_token is not None:
        return None
    names = {id(value): name for name, value in (*model.named_parameters(), *model.named_buffers())}
    names |= {id(table): "table", id(scale): "scale"}
    graph = GraphBuilder(names)
    sums = graph.add("Gather", graph.weight(table), "positions", axis=0)
    if scale is not None:
        sums = graph.add("Cast", sums, to=TensorProto.FLOAT)
    if has_weights:
        sums = graph.add("Mul", sums, graph.add("Unsqueeze", "weights", graph.integers(2)))
    rows = graph.add("ReduceSum", sums, graph.integers(1), keepdims=0)
    if scale is not None:
        rows = graph.add("Mul", rows, graph.weight(scale))
    spread = model.embedding.spread
    if spread is not None:
        rows = graph.add("MatMul", rows, graph.weight(spread))
    row_dim = (table if spread is None else spread).shape[1]
    known = graph.add("Concat", graph.constant(np.zeros((1, row_dim))), "cached", rows, axis=0)
    real = graph.add("Unsqueeze", graph.add("Cast", "index", to=TensorProto.BOOL), graph.integers(2))
    scope = Scope(graph, WRITERS, graph.add("Shape", "index", start=1, end=2), real)
    x = graph.add("Gather", known, "index", axis=0)
    try:
        for module in (model.embedding, model.encoder, model.head):
            x = scope.write(module, x)
    except NoWriter:
        return None
    bags = ("new_words", "bag")
    inputs = {
        "cached": (TensorProto.FLOAT, ("cached_words", row_dim)),
        "positions": (TensorProto.INT32, bags),
        "index": (TensorProto.INT32, ("texts", "tokens")),
    }
    if has_weights:
        inputs["weights"] = (TensorProto.FLOAT, bags)
    assert isinstance(model.head, PoolingHead | TokenHead)
    tokens = ("tokens",) if isinstance(model.head, TokenHead) else ()
    logits = ("texts", *tokens, model.head.output.out_features)
    return graph.build(inputs, {"logits": (x, logits), "rows": (rows, ("new_words", row_dim))})


def _write_embedding(scope: Scope, module: ProjectionEmbedding, x: str) -> str:
    graph = scope.graph
    w = module.window
    dim = module.dim
    if w:
        padded = graph.add("Pad", x, graph.integers(0, w, 0, 0, w, 0))
        parts = []
        for offset in range(2 * w + 1):  # part `offset` of the word that is w - offset to the left
            last = offset - 2 * w or END
            parts.append(graph.slice(padded, (1, 2), (offset, offset * dim), (last, (offset + 1) * dim)))
        x = parts[0]
        for part in parts[1:]:
            x = graph.add("Add", x, part)
    if module.bias is not None:
        x = graph.add("Add", x, graph.weight(module.bias))
    for layer in (module.positions, module.norm):
        x = x if layer is None else scope.write(layer, x)
    return x


def _write_encoder(scope: Scope, module: Encoder, x: str) -> str:
    for layer in module.layers:
        x = scope.write(layer, x)
    return x if module.norm is None else scope.write(module.norm, x)


def _write_block(scope: Scope, module: Block, x: str) -> str:
    if module.cross is not None or module.scales is not None:
        raise NoWriter
    sublayers = list(zip(module.mixers, module.mixer_norms, strict=True))
    if module.feed_forward is not None and module.feed_forward_norm is not None:
        sublayers.append((module.feed_forward, module.feed_forward_norm))
    for layer, norm in sublayers:
        y = scope.write(layer, scope.write(norm, x) if module.pre else x)
        x = scope.graph.add("Add", x, y)
        x = x if module.pre else scope.write(norm, x)
    return x


def _write_feed_forward(scope: Scope, module: FeedForward, x: str) -> str:
    gated = module.value is not None
    hidden = scope.graph.add("Gelu", scope.write(module.expand, x), approximate="tanh" if gated else "none")
    if module.value is not None:
        hidden = scope.graph.add("Mul", hidden, scope.write(module.value, x))
    return scope.write(module.contract, hidden)


def _write_linear(scope: Scope, module: nn.Linear, x: str) -> str:
    graph = scope.graph
    y = graph.add("MatMul", x, graph.weight(module.weight, transposed=True))
    return y if module.bias is None else graph.add("Add", y, graph.weight(module.bias))


def _write_layer_norm(scope: Scope, module: nn.LayerNorm, x: str) -> str:
    weights = [scope.graph.weight(weight) for weight in (module.weight, module.bias)]
    return scope.graph.add("LayerNormalization", x, *weights, axis=-1, epsilon=module.eps)


def _write_rms_norm(scope: Scope, module: RMSNorm, x: str) -> str:
    graph = scope.graph
    square = graph.add("ReduceMean", graph.add("Mul", x, x), graph.integers(-1))
    size = graph.add("Sqrt", graph.add("Add", square, graph.constant(module.eps)))
    return graph.add("Mul", graph.add("Div", x, size), graph.weight(module.weight))


def _write_pooling_head(scope: Scope, module: PoolingHead, x: str) -> str:
    from onnx import TensorProto

    graph = scope.graph
    tokens = scope.graph.integers(1)
    lowest = float(np.finfo(np.float32).min)
    pools = []
    zeroed = scope.without_padding(x)
    if module.score is not None:
        scores = scope.without_padding(scope.write(module.score, x), lowest)
        weights = graph.add("Transpose", graph.add("Softmax", scores, axis=1), perm=(0, 2, 1))
        pools.append(graph.add("Squeeze", graph.add("MatMul", weights, zeroed), tokens))
    real = graph.add("Cast", scope.real, to=TensorProto.FLOAT)
    number = graph.add("ReduceSum", real, tokens, keepdims=0)  # (B, 1)
    if module.pooling in ("mean", "all"):
        total = graph.add("ReduceSum", zeroed, tokens, keepdims=0)
        pools.append(graph.add("Div", total, graph.add("Max", number, graph.constant(1.0))))
    if module.pooling in ("max", "all"):
        highest = graph.add("ReduceMax", scope.without_padding(x, lowest), tokens, keepdims=0)
        some = graph.add("Cast", number, to=TensorProto.BOOL)
        pools.append(graph.add("Where", some, highest, graph.constant(0.0)))
    pool = pools[0] if len(pools) == 1 else graph.add("Concat", *pools, axis=1)
    return graph.add("Gemm", pool, *map(graph.weight, (module.output.weight, module.output.bias)), transB=1)


def _write_token_head(scope: Scope, module: TokenHead, x: str) -> str:
    return scope.write(module.output, x)


# For each class its writer: (scope, module, input) -> output.
WRITERS: Writers = {
    **MIXER_WRITERS,
    Block: _write_block,
    Encoder: _write_encoder,
    FeedForward: _write_feed_forward,
    PoolingHead: _write_pooling_head,
    ProjectionEmbedding: _write_embedding,
    RMSNorm: _write_rms_norm,
    TokenHead: _write_token_head,
    nn.LayerNorm: _write_layer_norm,
    nn.Linear: _write_linear,
}
