"""Writers of recurrent mixers; see `mixling.export.write`."""

from __future__ import annotations

import numpy as np

from mixling.export.scope import Scope, Writers
from mixling.mixers.recurrent import LSTM, QRNN, Recurrent
from mixling.runtime.onnx.graph import INT64


def _write_recurrent(scope: Scope, module: Recurrent, x: str) -> str:
    for layer, ahead in enumerate(module.forwards):
        y = scope.write(ahead, x)
        if module.bidirectional:
            back = _reverse(scope, scope.write(module.backwards[layer], _reverse(scope, x)))
            y = scope.graph.add("Concat", y, back, axis=-1)
        x = y
    return x if module.project is None else scope.write(module.project, x)


def _reverse(scope: Scope, x: str) -> str:
    """Reverse the real tokens of each text; padding stays after them."""
    graph = scope.graph
    real = graph.add("Cast", scope.real, to=INT64)
    last = graph.add("Sub", graph.add("ReduceSum", real, graph.integers(1), keepdims=1), graph.constant(1, np.int64))
    index = graph.add("Unsqueeze", scope.indices, graph.integers(1))
    mirrored = graph.add("Where", scope.real, graph.add("Sub", last, index), index)
    return graph.add("GatherElements", x, graph.add("Expand", mirrored, graph.add("Shape", x)), axis=1)


def _write_lstm(scope: Scope, module: LSTM, x: str) -> str:
    graph = scope.graph

    def gates(name: str) -> str:
        """Return a weight with the gates in ONNX's order."""
        i, f, g, o = graph.split("Split", 4, graph.weight(module.cell.get_parameter(name)), axis=0, num_outputs=4)
        return graph.add("Concat", i, o, f, g, axis=0)

    w, r = (graph.add("Unsqueeze", gates(f"weight_{name}_l0"), graph.integers(0)) for name in ("ih", "hh"))
    bias = graph.add("Concat", gates("bias_ih_l0"), gates("bias_hh_l0"), axis=0)
    bias = graph.add("Unsqueeze", bias, graph.integers(0))
    y = graph.add("LSTM", graph.add("Transpose", x, perm=(1, 0, 2)), w, r, bias, hidden_size=module.hidden_dim)
    return graph.add("Transpose", graph.add("Squeeze", y, graph.integers(1)), perm=(1, 0, 2))


def _write_qrnn(scope: Scope, module: QRNN, x: str) -> str:
    """By doubling, without a step for each token."""
    graph = scope.graph
    length = scope.length

    def shifted(y: str, shift: int) -> str:
        """Return y with zeros before it, cut to the length."""
        return graph.slice(graph.add("Pad", y, graph.integers(0, shift, 0, 0, 0, 0)), (1,), (0,), length)

    windows = [shifted(x, shift) if shift else x for shift in reversed(range(module.window))]
    seen = graph.add("Concat", *windows, axis=-1)
    z, f, o = graph.split("Split", 3, scope.write(module.gates, seen), axis=-1, num_outputs=3)
    keep = graph.add("Sigmoid", f)
    c = graph.add("Mul", graph.add("Sigmoid", graph.add("Neg", f)), graph.add("Tanh", z))
    shift = 1
    while shift < module.max_len:
        c = graph.add("Add", c, graph.add("Mul", keep, shifted(c, shift)))
        keep = graph.add("Mul", keep, shifted(keep, shift))
        shift *= 2
    return graph.add("Mul", graph.add("Sigmoid", o), c)


RECURRENT_WRITERS: Writers = {LSTM: _write_lstm, QRNN: _write_qrnn, Recurrent: _write_recurrent}
