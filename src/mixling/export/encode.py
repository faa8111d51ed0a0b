"""The bytes of an ONNX file, as protobuf writes them: fields in the order of their numbers in onnx.proto."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from mixling.export.graph_builder import WrittenGraph
from mixling.runtime.onnx.file import OPSET, fields_of, seal
from mixling.runtime.onnx.graph import FLOAT, TYPES, Node

IR_VERSION = 10
_GRAPH, _METADATA = 7, 14  # fields of ModelProto
_INITIALIZER = 5  # of GraphProto

_KINDS = {np.dtype(name): kind for kind, name in TYPES.items()}

Sizes = Sequence[int | str]


def encode_model(graph: WrittenGraph, entries: Mapping[str, str], *, producer: tuple[str, str]) -> bytes:
    """Return a sealed ONNX file.

    Args:
        entries: its metadata.
        producer: the name and the version of what wrote it.
    """
    parts = [_number(1, IR_VERSION), _bytes(2, producer[0]), _bytes(3, producer[1])]
    parts += [_bytes(_GRAPH, _graph(graph)), _bytes(8, _bytes(1, "") + _number(2, OPSET))]
    return seal(b"".join([*parts, *_metadata(entries)]))


def add_to_model(content: bytes, arrays: Mapping[str, npt.NDArray[Any]], entries: Mapping[str, str]) -> bytes:
    """Return a sealed ONNX file with more arrays, and with its metadata replaced.

    Args:
        content: a file that `encode_model` made.
        arrays: by name.
        entries: the new metadata.
    """
    parts: list[bytes] = []
    for number, start, inside, end in fields_of(content):
        if number == _GRAPH:
            graph = content[inside:end]
            last = max(place for field, _, _, place in fields_of(graph) if field <= _INITIALIZER)
            added = [_bytes(_INITIALIZER, _tensor(name, array)) for name, array in arrays.items()]
            parts.append(_bytes(_GRAPH, b"".join([graph[:last], *added, graph[last:]])))
        elif number != _METADATA:
            parts.append(content[start:end])
    return seal(b"".join([*parts, *_metadata(entries)]))


def _metadata(entries: Mapping[str, str]) -> Iterator[bytes]:
    for key, value in entries.items():
        yield _bytes(_METADATA, _bytes(1, key) + _bytes(2, value))


def _graph(graph: WrittenGraph) -> bytes:
    parts = [_bytes(1, _node(node)) for node in graph.nodes]
    parts.append(_bytes(2, "mixling"))
    parts += [_bytes(_INITIALIZER, _tensor(name, array)) for name, array in graph.weights.items()]
    parts += [_bytes(11, _value(name, kind, sizes)) for name, (kind, sizes) in graph.inputs.items()]
    parts += [_bytes(12, _value(name, FLOAT, sizes)) for name, sizes in graph.outputs.items()]
    return b"".join(parts)


def _node(node: Node) -> bytes:
    parts = [_bytes(1, name) for name in node.inputs]
    parts += [_bytes(2, name) for name in node.outputs]
    parts.append(_bytes(4, node.operator))
    parts += [_bytes(5, _attribute(name, value)) for name, value in sorted(node.attributes.items())]
    return b"".join(parts)


def _attribute(name: str, value: Any) -> bytes:
    start = _bytes(1, name)
    match value:
        case bool() | int():
            return start + _number(3, int(value)) + _number(20, 2)
        case float():
            return start + _key(2, 5) + struct.pack("<f", value) + _number(20, 1)
        case str():
            return start + _bytes(4, value) + _number(20, 3)
        case np.ndarray():
            return start + _bytes(5, _tensor("", value)) + _number(20, 4)
        case tuple() | list() if all(isinstance(item, int) for item in value):
            return start + b"".join(_number(8, item) for item in value) + _number(20, 7)
    raise AssertionError(f"the attribute {name} = {value!r} has no encoding")


def _tensor(name: str, array: npt.NDArray[Any]) -> bytes:
    parts = [_number(1, size) for size in array.shape]
    parts.append(_number(2, _KINDS[array.dtype]))
    parts += [_bytes(8, name)] if name else []
    return b"".join([*parts, _bytes(9, np.ascontiguousarray(array).tobytes())])


def _value(name: str, kind: int, sizes: Sizes) -> bytes:
    """Return a ValueInfoProto; named sizes are variable."""
    shape = [_bytes(1, _bytes(2, size) if isinstance(size, str) else _number(1, size)) for size in sizes]
    return _bytes(1, name) + _bytes(2, _bytes(1, _number(1, kind) + _bytes(2, b"".join(shape))))


def _key(number: int, wire: int) -> bytes:
    return _varint(number << 3 | wire)


def _number(number: int, value: int) -> bytes:
    return _key(number, 0) + _varint(value)


def _bytes(number: int, value: bytes | str) -> bytes:
    content = value.encode() if isinstance(value, str) else value
    return _key(number, 2) + _varint(len(content)) + content


def _varint(value: int) -> bytes:
    value &= 2**64 - 1  # negative numbers take ten bytes
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)
