"""The operators of model graphs: the shapes of their results, their attributes and their work.

Integers may be divided only by values known to be positive: the least integer divided by -1 crashes the process.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from mixling.runtime.onnx.graph import BOOL, INT32, INT64, TYPES
from mixling.runtime.onnx.shapes import (
    MOVING,
    Attributes,
    GraphInputs,
    Known,
    ShapeRule,
    all_values,
    axis_of,
    broadcast,
    tensor,
    values_of,
)

_INTEGERS = (2, 3, INT32, INT64)


def _same(_: Attributes, inputs: GraphInputs) -> list[Known]:
    """The result has the shape and type of the first input."""
    return [Known(broadcast(inputs[0].shape), inputs[0].kind)]


def _identity(_: Attributes, inputs: GraphInputs) -> list[Known]:
    return [inputs[0]]


def _elementwise(function: Callable[..., Any] | None = None, kind: int | None = None) -> ShapeRule:
    def handler(_: Attributes, inputs: GraphInputs) -> list[Known]:
        shape = broadcast(*(item.shape for item in inputs))
        values = all_values(inputs) if function else None
        return [tensor(shape, kind or inputs[0].kind, None if values is None else lambda: function(*values))]  # type: ignore[misc]

    return handler


def _division(function: Callable[..., Any]) -> ShapeRule:
    plain = _elementwise(function)

    def handler(attributes: Attributes, inputs: GraphInputs) -> list[Known]:
        divisor = inputs[1]
        positive = divisor.positive or (divisor.value is not None and bool((divisor.value > 0).all()))
        if divisor.kind in _INTEGERS and not positive:
            raise ValueError("integers are divided by values that may not be positive")
        return plain(attributes, inputs)

    return handler


def _truncated(a: npt.NDArray[Any], b: npt.NDArray[Any]) -> npt.NDArray[Any]:
    quotient: npt.NDArray[Any] = np.sign(a) * (np.abs(a) // b)  # b > 0
    return quotient


def _where(_: Attributes, inputs: GraphInputs) -> list[Known]:
    shape = broadcast(*(item.shape for item in inputs))
    values = all_values(inputs)
    return [tensor(shape, inputs[1].kind, None if values is None else lambda: np.where(*values))]


def _clip(_: Attributes, inputs: GraphInputs) -> list[Known]:
    low = inputs[1].value if len(inputs) > 1 and inputs[1] is not None else None
    positive = len(inputs) == 2 and low is not None and bool((low > 0).all())
    return [Known(broadcast(inputs[0].shape), inputs[0].kind, None, positive)]


def _cast(attributes: Attributes, inputs: GraphInputs) -> list[Known]:
    kind = attributes["to"]
    item = inputs[0]
    if kind not in TYPES:
        raise ValueError(f"type {kind}")
    return [tensor(item.shape, kind, None if item.value is None else lambda: item.value.astype(TYPES[kind]))]


def _reduce(attributes: Attributes, inputs: GraphInputs) -> list[Known]:
    item = inputs[0]
    rank = len(item.shape)
    axes = {axis_of(axis, rank) for axis in values_of(inputs[1])} if len(inputs) > 1 and inputs[1] is not None else ()
    if not axes and attributes.get("noop_with_empty_axes", 0):
        return [item]
    axes = axes or set(range(rank))
    keep = attributes.get("keepdims", 1)
    shape = [1 if axis in axes else size for axis, size in enumerate(item.shape) if keep or axis not in axes]
    return [Known(broadcast(tuple(shape)), item.kind)]


def _matmul(_: Attributes, inputs: GraphInputs) -> list[Known]:
    a, b = (item.shape for item in inputs)
    left = a if len(a) > 1 else (1, *a)
    right = b if len(b) > 1 else (*b, 1)
    if left[-1] != right[-2] or left[-1] is None:
        raise ValueError(f"shapes {a} and {b} do not fit")
    rows = (left[-2],) if len(a) > 1 else ()
    columns = (right[-1],) if len(b) > 1 else ()
    return [Known(broadcast((*broadcast(left[:-2], right[:-2]), *rows, *columns)), inputs[0].kind)]


def _gemm(attributes: Attributes, inputs: GraphInputs) -> list[Known]:
    a, b = (item.shape for item in inputs[:2])
    a = a[::-1] if attributes.get("transA", 0) else a
    b = b[::-1] if attributes.get("transB", 0) else b
    if len(a) != 2 or len(b) != 2 or a[1] != b[0]:
        raise ValueError(f"shapes {a} and {b} do not fit")
    return [Known(broadcast((a[0], b[1])), inputs[0].kind)]


def _lstm(attributes: Attributes, inputs: GraphInputs) -> list[Known]:
    item = inputs[0]
    hidden = attributes["hidden_size"]
    length, batch, width = item.shape
    directions = inputs[1].shape[0]
    if inputs[1].shape[1:] != (4 * hidden, width) or inputs[2].shape != (directions, 4 * hidden, hidden):
        raise ValueError(f"weights {inputs[1].shape} and {inputs[2].shape} of {item.shape}")
    last = broadcast((directions, batch, hidden))
    return [Known((length, *last), item.kind), Known(last, item.kind), Known(last, item.kind)]


_COMPARISONS = {
    "Equal": np.equal,
    "Greater": np.greater,
    "GreaterOrEqual": np.greater_equal,
    "Less": np.less,
    "LessOrEqual": np.less_equal,
    "And": np.logical_and,
    "Or": np.logical_or,
    "Not": np.logical_not,
}
_ARITHMETIC = {"Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Neg": np.negative}
_REDUCTIONS = ("ReduceMax", "ReduceMean", "ReduceMin", "ReduceSum")

OPERATORS: dict[str, ShapeRule] = {
    **MOVING,
    **{name: _elementwise(function, BOOL) for name, function in _COMPARISONS.items()},
    **{name: _elementwise(function) for name, function in _ARITHMETIC.items()},
    **dict.fromkeys(("Abs", "Cos", "Elu", "Erf", "Exp", "Gelu", "Log", "Reciprocal", "Relu", "Round"), _same),
    **dict.fromkeys(("Sigmoid", "Sin", "Sqrt", "Tanh", "CumSum", "LayerNormalization", "Softmax"), _same),
    **dict.fromkeys(_REDUCTIONS, _reduce),
    "Cast": _cast,
    "Clip": _clip,
    "Div": _division(_truncated),
    "Gemm": _gemm,
    "Identity": _identity,
    "LSTM": _lstm,
    "MatMul": _matmul,
    "Max": _elementwise(),
    "Min": _elementwise(),
    "Mod": _division(np.mod),
    "Pow": _elementwise(),
    "Where": _where,
}


def multiplications(operator: str, inputs: GraphInputs, outputs: Sequence[Known]) -> int:
    """Return the number of multiplications of a node, for operators with matrix products."""
    match operator:
        case "MatMul":
            return outputs[0].elements * (inputs[0].shape[-1] or 0)
        case "Gemm":
            return int(inputs[0].elements * (outputs[0].shape[1] or 0))
        case "LSTM":
            length, batch, _ = inputs[0].shape
            return int((length or 0) * (batch or 0) * (inputs[1].elements + inputs[2].elements))
    return 0


# The attributes that a node may have; others might change the shapes.
ATTRIBUTES: dict[str, frozenset[str]] = {
    operator: frozenset(names)
    for operator, names in {
        "Cast": ("to",),
        "Concat": ("axis",),
        "Constant": ("value",),
        "ConstantOfShape": ("value",),
        "CumSum": ("exclusive", "reverse"),
        "Elu": ("alpha",),
        "Gather": ("axis",),
        "GatherElements": ("axis",),
        "GatherND": ("batch_dims",),
        "Gelu": ("approximate",),
        "Gemm": ("alpha", "beta", "transA", "transB"),
        "LSTM": ("hidden_size",),
        "LayerNormalization": ("axis", "epsilon", "stash_type"),
        "Mod": ("fmod",),
        "Pad": ("mode",),
        **dict.fromkeys(_REDUCTIONS, ("keepdims", "noop_with_empty_axes")),
        "Reshape": ("allowzero",),
        "Shape": ("end", "start"),
        "Softmax": ("axis",),
        "Split": ("axis", "num_outputs"),
        "Transpose": ("perm",),
    }.items()
}
