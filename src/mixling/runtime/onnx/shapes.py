"""Infer the shapes of results before anything is computed; here for operators that move values without changing them.

A handler receives a node's attributes and the knowledge of its inputs (None for an omitted one), and returns what is
known of its outputs. The values of small integer tensors are tracked as well, because shapes are made from them. An
exception of a handler (`TypeError`, `ValueError`, `LookupError`, ...) means that the node cannot be computed, or its
result is not known beforehand. Names and rules follow https://onnx.ai/onnx/operators/.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import zip_longest
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from mixling.runtime.onnx.graph import BOOL, FLOAT, INT32, INT64, TYPES, Weights

MAX_TRACKED = 64  # of a tensor whose values are tracked

# An unknown size, which is the number of rows that the caller has cached, is None.
TensorShape = tuple[int | None, ...]
Attributes = dict[str, Any]


class Known(NamedTuple):
    """What is known of a tensor: its shape, ONNX's number of its type, and possibly values, or that all are > 0."""

    shape: TensorShape
    kind: int
    value: npt.NDArray[Any] | None = None
    positive: bool = False

    @property
    def elements(self) -> int:
        return 0 if None in self.shape else math.prod(self.shape)  # type: ignore[arg-type]


# Omitted inputs are None; a handler that reads one fails, and the node is rejected.
GraphInputs = Sequence[Any]
ShapeRule = Callable[[Attributes, GraphInputs], list[Known]]


def broadcast(*shapes: TensorShape) -> TensorShape:
    sizes = []
    for column in zip_longest(*map(reversed, shapes), fillvalue=1):
        size = 1
        for other in column:
            if other is None or (other != 1 and size not in (1, other)):
                raise ValueError(f"shapes {', '.join(map(str, shapes))} do not fit")
            size = other if size == 1 else size
        sizes.append(size)
    return tuple(reversed(sizes))


def axis_of(axis: int, rank: int) -> int:
    if not -rank <= axis < rank:
        raise ValueError(f"axis {axis} of {rank}")
    return axis % rank


def values_of(item: Known) -> list[int]:
    """Return the values of a tensor that determines a shape."""
    if item.value is None:
        raise ValueError("a shape depends on values that are not known beforehand")
    return [int(value) for value in item.value.reshape(-1)]


def tensor(
    shape: TensorShape, kind: int, values: Callable[[], npt.ArrayLike] | None = None, *, positive: bool = False
) -> Known:
    """Describe a tensor of this shape, with its values if they are known and few."""
    if values is None or kind not in (INT32, INT64, BOOL) or math.prod(size or 0 for size in shape) > MAX_TRACKED:
        return Known(shape, kind, None, positive)
    return Known(shape, kind, np.asarray(values(), TYPES[kind]).reshape([size or 0 for size in shape]), positive)


def all_values(inputs: GraphInputs) -> list[npt.NDArray[Any]] | None:
    """Return the values of all inputs, or None if some are unknown."""
    values = [item.value for item in inputs if item.value is not None]
    return values if len(values) == len(inputs) else None


def _constant(attributes: Attributes, _: GraphInputs) -> list[Known]:
    return [known_weights(attributes["value"])]


def known_weights(item: Weights) -> Known:
    """Describe a constant tensor."""
    return tensor(item.shape, item.kind, item.array)


def _shape(attributes: Attributes, inputs: GraphInputs) -> list[Known]:
    sizes = inputs[0].shape[attributes.get("start", 0) : attributes.get("end")]
    if None in sizes:
        raise ValueError("it depends on the number of cached words")
    return [tensor((len(sizes),), INT64, lambda: np.array(sizes))]


def _reshape(attributes: Attributes, inputs: GraphInputs) -> list[Known]:
    item = inputs[0]
    wanted = values_of(inputs[1])
    if None in item.shape:
        raise ValueError("it depends on the number of cached words")
    if not attributes.get("allowzero", 0):
        wanted = [item.shape[i] if size == 0 else size for i, size in enumerate(wanted)]
    if wanted.count(-1) == 1:
        rest = -math.prod(wanted)
        wanted[wanted.index(-1)] = item.elements // rest if rest else 0
    if min(wanted, default=0) < 0 or math.prod(wanted) != item.elements:
        raise ValueError(f"{item.shape} cannot have the shape {wanted}")
    return [tensor(tuple(wanted), item.kind, _moved(item), positive=item.positive)]


def _moved(item: Known) -> Callable[[], npt.NDArray[Any]] | None:
    """Return the values of a tensor whose shape alone changes."""
    value = item.value
    return None if value is None else lambda: value


def _squeeze(_: Attributes, inputs: GraphInputs) -> list[Known]:
    item = inputs[0]
    rank = len(item.shape)
    if len(inputs) > 1:
        axes = {axis_of(axis, rank) for axis in values_of(inputs[1])}
    else:
        axes = {axis for axis in range(rank) if item.shape[axis] == 1}
    if any(item.shape[axis] != 1 for axis in axes):
        raise ValueError(f"axes {sorted(axes)} of {item.shape}")
    shape = tuple(size for axis, size in enumerate(item.shape) if axis not in axes)
    return [tensor(shape, item.kind, _moved(item), positive=item.positive)]


def _unsqueeze(_: Attributes, inputs: GraphInputs) -> list[Known]:
    item = inputs[0]
    axes = values_of(inputs[1])
    rank = len(item.shape) + len(axes)
    added = {axis_of(axis, rank) for axis in axes}
    if len(added) != len(axes):
        raise ValueError(f"axes {axes}")
    sizes = iter(item.shape)
    shape = tuple(1 if axis in added else next(sizes) for axis in range(rank))
    return [tensor(shape, item.kind, _moved(item), positive=item.positive)]


def _transpose(attributes: Attributes, inputs: GraphInputs) -> list[Known]:
    item = inputs[0]
    order = attributes.get("perm", tuple(reversed(range(len(item.shape)))))
    if sorted(order) != list(range(len(item.shape))):
        raise ValueError(f"order {order} of {item.shape}")
    return [Known(tuple(item.shape[axis] for axis in order), item.kind)]


def _expand(_: Attributes, inputs: GraphInputs) -> list[Known]:
    wanted = tuple(values_of(inputs[1]))
    if min(wanted, default=0) < 0:
        raise ValueError(f"the shape {wanted}")
    shape = broadcast(inputs[0].shape, wanted)
    value = inputs[0].value  # `tensor` reads it only if the shape is small
    return [tensor(shape, inputs[0].kind, None if value is None else lambda: value + np.zeros(wanted, value.dtype))]


def _concat(attributes: Attributes, inputs: GraphInputs) -> list[Known]:
    first = inputs[0].shape
    axis = axis_of(attributes["axis"], len(first))
    others = {item.shape[:axis] + item.shape[axis + 1 :] for item in inputs}
    if len(others) != 1 or any(len(item.shape) != len(first) for item in inputs):
        raise ValueError(f"shapes {', '.join(str(item.shape) for item in inputs)} do not fit")
    sizes = [item.shape[axis] for item in inputs]
    total = None if None in sizes else sum(sizes)
    values = all_values(inputs)
    joined = None if values is None else lambda: np.concatenate(values, axis)
    return [tensor((*first[:axis], total, *first[axis + 1 :]), inputs[0].kind, joined)]


def _slice(_: Attributes, inputs: GraphInputs) -> list[Known]:
    item = inputs[0]
    starts = values_of(inputs[1])
    ends = values_of(inputs[2])
    axes = values_of(inputs[3]) if len(inputs) > 3 else list(range(len(starts)))
    steps = values_of(inputs[4]) if len(inputs) > 4 else [1] * len(starts)
    parts = [slice(None)] * len(item.shape)
    sizes = list(item.shape)
    for number, *part in zip(axes, starts, ends, steps, strict=True):
        axis = axis_of(number, len(sizes))
        parts[axis] = slice(*part)
        sizes[axis] = len(range(*parts[axis].indices(item.shape[axis])))
    value = item.value
    return [tensor(tuple(sizes), item.kind, None if value is None else lambda: value[tuple(parts)])]


def _split(attributes: Attributes, inputs: GraphInputs) -> list[Known]:
    item = inputs[0]
    axis = axis_of(attributes.get("axis", 0), len(item.shape))
    size = item.shape[axis]
    if len(inputs) > 1:
        sizes = values_of(inputs[1])
    else:
        number = attributes["num_outputs"]
        if not 0 < number <= MAX_TRACKED:
            raise ValueError(f"{number} parts")
        each = -(-size // number)
        sizes = [each] * (number - 1) + [size - each * (number - 1)]
    if min(sizes) < 0 or sum(sizes) != size:
        raise ValueError(f"{size} in parts of {sizes[:10]}")
    return [Known((*item.shape[:axis], part, *item.shape[axis + 1 :]), item.kind) for part in sizes]


def _pad(_: Attributes, inputs: GraphInputs) -> list[Known]:
    item = inputs[0]
    pads = values_of(inputs[1])
    rank = len(item.shape)
    has_axes = len(inputs) > 3 and inputs[3] is not None
    axes = [axis_of(axis, rank) for axis in values_of(inputs[3])] if has_axes else list(range(rank))
    sizes = list(item.shape)
    for axis, before, after in zip(axes, pads[: len(axes)], pads[len(axes) :], strict=True):
        sizes[axis] += before + after
    if any(size is not None and size < 0 for size in sizes):
        raise ValueError(f"{item.shape} by {pads}")
    return [Known(tuple(sizes), item.kind)]


def _gather(attributes: Attributes, inputs: GraphInputs) -> list[Known]:
    item, index = inputs
    axis = axis_of(attributes.get("axis", 0), len(item.shape))
    if None in index.shape:
        raise ValueError("it depends on the number of cached words")
    shape = (*item.shape[:axis], *index.shape, *item.shape[axis + 1 :])
    values = all_values(inputs)
    return [tensor(shape, item.kind, None if values is None else lambda: np.take(values[0], values[1], axis))]


def _gather_elements(_: Attributes, inputs: GraphInputs) -> list[Known]:
    return [Known(broadcast(inputs[1].shape), inputs[0].kind)]


def _gather_nd(attributes: Attributes, inputs: GraphInputs) -> list[Known]:
    item, index = inputs
    used = attributes.get("batch_dims", 0) + index.shape[-1]
    if not 0 < used <= len(item.shape) or not 0 <= attributes.get("batch_dims", 0) < len(index.shape):
        raise ValueError(f"{used} indices of {item.shape}")
    return [Known(broadcast(index.shape[:-1] + item.shape[used:]), item.kind)]


def _range(_: Attributes, inputs: GraphInputs) -> list[Known]:
    start, end, step = (values_of(item)[0] for item in inputs)
    return [Known((len(range(start, end, step)),), inputs[0].kind)]


def _filled(attributes: Attributes, inputs: GraphInputs) -> list[Known]:
    shape = tuple(values_of(inputs[0]))
    if min(shape, default=0) < 0:
        raise ValueError(f"the shape {shape}")
    fill = attributes.get("value")
    values = (lambda: np.broadcast_to(fill.array(), shape)) if fill else None
    return [tensor(shape, fill.kind if fill else FLOAT, values)]


MOVING: dict[str, ShapeRule] = {
    "Concat": _concat,
    "Constant": _constant,
    "ConstantOfShape": _filled,
    "Expand": _expand,
    "Gather": _gather,
    "GatherElements": _gather_elements,
    "GatherND": _gather_nd,
    "Pad": _pad,
    "Range": _range,
    "Reshape": _reshape,
    "Shape": _shape,
    "Slice": _slice,
    "Split": _split,
    "Squeeze": _squeeze,
    "Transpose": _transpose,
    "Unsqueeze": _unsqueeze,
}
