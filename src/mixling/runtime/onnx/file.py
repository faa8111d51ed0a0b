"""Check an ONNX file before native code reads it.

A model file ends in a checksum trailer: a metadata entry with the SHA-256 of all bytes before it. This is valid ONNX (a
repeated field may be last), so every ONNX tool reads the file, and damage is detected before a parser fails on it. A
checksum does not stop an attacker, so the file is parsed here as well, and everything that could run forever or read
another file is rejected: graphs within graphs (loops), functions, operators beyond the ONNX standard, external data. So
is every field that model files do not use, because native code might interpret it. The result is a `Graph`, for which
`graph_limits` bounds the computation.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from mixling.runtime.onnx.graph import KIND_SIZES, MAX_RANK, TYPES, Graph, Node, Weights

MAX_MODEL_BYTES = 2**31

SEAL_KEY = "mixling_sha256"
_KEY = SEAL_KEY.encode()
# ModelProto.metadata_props (field 14) of 82 bytes: key (field 1) of 14, value (field 2) of 64.
_SEAL = bytes([14 << 3 | 2, 82, 1 << 3 | 2, len(_KEY)]) + _KEY + bytes([2 << 3 | 2, 64])
_SEAL_LENGTH = len(_SEAL) + 64

# A file of two-byte fields would take minutes to parse; mixling's models have a few thousand fields.
_MAX_FIELDS = 500_000

OPSET = 20  # the first with Gelu; LayerNormalization came with 17
MAX_NODES = 10_000

ByteSpan = tuple[int, int]


def seal(content: bytes) -> bytes:
    """Append the checksum of `content`, a serialized ModelProto, as the last metadata entry."""
    return content + _SEAL + hashlib.sha256(content).hexdigest().encode()


def is_intact(data: bytes) -> bool:
    """Return whether a model file ends in the checksum of its content."""
    digest = hashlib.sha256(data[:-_SEAL_LENGTH]).hexdigest().encode()
    return _is_sealed(data) and digest == data[len(_SEAL) - _SEAL_LENGTH :]


def _is_sealed(data: bytes) -> bool:
    return data[-_SEAL_LENGTH : len(_SEAL) - _SEAL_LENGTH] == _SEAL


def read_metadata(data: bytes) -> dict[str, str]:
    """Return the metadata of an ONNX file with a checksum trailer; raise errors as `read_model_file` does."""
    return read_model_file(data)[0]


def read_model_file(data: bytes) -> tuple[dict[str, str], Graph]:
    """Return the metadata and the graph of an ONNX file with a checksum trailer.

    Raises:
        ValueError: the file is not one; the message states the problem.
    """
    sealed = _is_sealed(data)
    if sealed and not is_intact(data):
        raise ValueError("is damaged or was modified: its checksum does not match its content")
    try:
        metadata, graph = _Parser(data).model()
    except _Malformed:
        raise ValueError("is not a complete ONNX file: it is damaged, truncated or of another format") from None
    if "mixling" not in metadata:
        raise ValueError("is an ONNX file but not a mixling model")
    if not sealed:
        raise ValueError("is damaged or was modified: it does not end in its checksum")
    return metadata, graph


def fields_of(data: bytes) -> Iterator[tuple[int, int, int, int]]:
    """Yield number, begin, begin of the content and end of each field of a message that mixling wrote."""
    parser = _Parser(data)
    begin = 0
    while begin < len(data):
        tag, inside = parser.varint(begin, len(data))
        value, after = parser.varint(inside, len(data))
        inside, end = (after, after + value) if tag & 7 == 2 else (inside, after)
        yield tag >> 3, begin, inside, end
        begin = end


class _Malformed(Exception):
    """The bytes are not a valid message."""


class _Parser:
    """Parses the relevant fields of onnx.proto by their numbers; raises a ValueError for rejected content."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.view = memoryview(data)
        self.left = _MAX_FIELDS

    def model(self) -> tuple[dict[str, str], Graph]:
        metadata: dict[str, str] = {}
        graph: Graph | None = None
        versions: list[int | ByteSpan | None] = []
        seen = set()
        for number, value in self.fields((0, len(self.data))):
            seen.add(number)
            if number == 7:
                if graph is not None:
                    raise ValueError("has two graphs, which a mixling model never has")
                graph = self.graph(_span(value))
            elif number == 8:
                operators = self.single(_span(value))
                self.domain(operators.get(1))
                versions.append(operators.get(2))
            elif number == 14:
                entry = dict(self.fields(_span(value)))
                metadata[self.text(entry.get(1))] = self.text(entry.get(2))
            elif number in (20, 25):
                raise ValueError("has functions or training steps, which a mixling model never has")
        if 1 not in seen or graph is None:  # ir_version, graph
            raise _Malformed
        if "mixling" in metadata and versions != [OPSET]:
            raise ValueError(f"uses the ONNX operator sets {versions}; a model file of this format uses {OPSET}")
        return metadata, graph

    def graph(self, span: ByteSpan) -> Graph:
        graph = Graph()
        for number, value in self.fields(span):
            if number == 1:
                graph.nodes.append(self.node(_span(value)))
                if len(graph.nodes) > MAX_NODES:
                    raise ValueError(f"has more than {MAX_NODES:,} nodes, which a mixling model never has")
            elif number == 5:
                name, weights = self.tensor(_span(value))
                if name in graph.weights:
                    raise ValueError(f"has the weights {name[:80]!r} twice")
                graph.weights[name] = weights
            elif number in (11, 12):
                name, signature = self.signature(_span(value))
                (graph.inputs if number == 11 else graph.outputs)[name] = signature
            elif number == 15:
                raise ValueError("has sparse weights, which a mixling model never has")
            elif number not in (2, 10, 16):  # name, notes
                raise ValueError(f"its graph has the field {number}, which a mixling model's never has")
        return graph

    def node(self, span: ByteSpan) -> Node:
        inputs: list[str] = []
        outputs: list[str] = []
        attributes: dict[str, Any] = {}
        operator = ""
        for number, value in self.fields(span):
            if number == 1:
                inputs.append(self.text(value))
            elif number == 2:
                outputs.append(self.text(value))
            elif number == 4:
                operator = self.text(value)
            elif number == 5:
                name, content = self.attribute(_span(value))
                if name in attributes:
                    raise _Malformed
                attributes[name] = content
            elif number == 7:
                self.domain(value)
            elif number not in (3, 6, 9):  # name, notes
                raise ValueError(f"a node has the field {number}, which a mixling model's never has")
        return Node(operator, tuple(inputs), tuple(outputs), attributes)

    def attribute(self, span: ByteSpan) -> tuple[str, Any]:
        """Return the name and the value: an integer, float, string, tensor, or several integers or floats."""
        name = ""
        kind = 0
        values: dict[int, list[int | ByteSpan]] = {}
        for number, value in self.fields(span):
            if number == 1:
                name = self.text(value)
            elif number == 20:
                kind = _number(value)
            elif number in (6, 11, 22, 23):
                raise ValueError("has a graph within a node (a loop or branch), which a mixling model never has")
            elif number in (2, 3, 4, 5, 7, 8):
                values.setdefault(number, []).append(value)
            elif number != 13:  # notes
                raise ValueError(f"an attribute has the field {number}, which a mixling model's never has")
        field = {1: 2, 2: 3, 3: 4, 4: 5, 6: 7, 7: 8}.get(kind)
        if field is None or not values.keys() <= {field}:
            raise ValueError(f"the attribute {name[:80]!r} is of type {kind} or of two types")
        items = values.get(field, [])
        if kind == 7:
            return name, tuple(item for value in items for item in self.integers(value))
        if kind == 6:
            return name, tuple(item for value in items for item in np.frombuffer(self.bytes(value), "<f4").tolist())
        if len(items) != 1:
            raise _Malformed
        match kind:
            case 1:
                return name, float(np.frombuffer(self.bytes(items[0]), "<f4")[0])
            case 2:
                return name, _signed(_number(items[0]))
            case 3:
                return name, self.text(items[0])
            case _:
                return name, self.tensor(_span(items[0]))[1]

    def tensor(self, span: ByteSpan) -> tuple[str, Weights]:
        name = ""
        kind = 0
        shape: list[int] = []
        raw: list[ByteSpan] = []
        for number, value in self.fields(span):
            if number == 1:
                shape += self.integers(value)
            elif number == 2:
                kind = _number(value)
            elif number == 8:
                name = self.text(value)
            elif number == 9:
                raw.append(_span(value))
            elif number == 13 or (number == 14 and value != 0):
                raise ValueError("stores weights in another file; a mixling model is a single file")
            elif number not in (12, 14, 16):  # notes
                raise ValueError(f"the weights {name[:80]!r} are not stored as plain bytes")
        if kind not in TYPES:
            raise ValueError(f"the weights {name[:80]!r} are of type {kind}, which a mixling model never has")
        if len(shape) > MAX_RANK or any(size < 0 for size in shape):
            raise ValueError(f"the weights {name[:80]!r} have the shape {shape[:10]}")
        start, end = raw[0] if raw else (0, 0)
        needed = math.prod(shape) * KIND_SIZES[kind]
        if len(raw) > 1 or end - start != needed:
            raise ValueError(f"the weights {name[:80]!r} have {end - start:,} bytes; their shape needs {needed:,}")
        return name, Weights(tuple(shape), kind, self.view[start:end])

    def signature(self, span: ByteSpan) -> tuple[str, tuple[int, tuple[int | None, ...]]]:
        """Return the name, type and dimensions of an input or output."""
        entry = self.single(span)
        tensor = self.single(_span(self.single(_span(entry.get(2, 0))).get(1, 0)))
        sizes = []
        for number, value in self.fields(_span(tensor.get(2, 0))):
            if number != 1:
                raise _Malformed
            size = self.single(_span(value)).get(1)
            sizes.append(None if size is None else _signed(_number(size)))
        return self.text(entry.get(1)), (_number(tensor.get(1, 0)), tuple(sizes))

    def single(self, span: ByteSpan) -> dict[int, int | ByteSpan]:
        """Return the fields of a message; none may be repeated."""
        message: dict[int, int | ByteSpan] = {}
        for number, value in self.fields(span):
            if number in message:
                raise _Malformed
            message[number] = value
        return message

    def integers(self, value: int | ByteSpan) -> list[int]:
        """Return the integers of a repeated field, a single one or packed ones."""
        if isinstance(value, int):
            return [_signed(value)]
        position, end = value
        items = []
        while position < end:
            item, position = self.varint(position, end)
            items.append(_signed(item))
        return items

    def bytes(self, value: int | ByteSpan) -> bytes:
        """Return the bytes of floats."""
        start, end = _span(value)
        if (end - start) % 4:
            raise _Malformed
        return self.data[start:end]

    def domain(self, value: int | ByteSpan | None) -> None:
        name = self.text(value)
        if name not in ("", "ai.onnx"):
            raise ValueError(f"uses operators of {name[:80]!r}; a mixling model uses only the ONNX standard's")

    def text(self, value: int | ByteSpan | None) -> str:
        if value is None:
            return ""
        start, end = _span(value)
        try:
            return self.data[start:end].decode()
        except UnicodeDecodeError:
            raise _Malformed from None

    def fields(self, span: ByteSpan) -> Iterator[tuple[int, int | ByteSpan]]:
        """Yield number and value of each field of a message; a value is an integer, or start and end of its bytes."""
        position, end = span
        while position < end:
            self.left -= 1
            if self.left < 0:
                raise ValueError(f"has more than {_MAX_FIELDS:,} fields, which a mixling model never has")
            tag, position = self.varint(position, end)
            value: int | ByteSpan
            kind = tag & 7
            if kind == 2:
                length, start = self.varint(position, end)
                position = start + length
                value = (start, position)
            elif kind == 0:
                value, position = self.varint(position, end)
            elif kind in (1, 5):
                start = position
                position = position + (8 if kind == 1 else 4)
                value = (start, position)
            else:
                raise _Malformed
            if position > end:
                raise _Malformed
            yield tag >> 3, value

    def varint(self, position: int, end: int) -> tuple[int, int]:
        if position < end and (byte := self.data[position]) < 0x80:  # fast path for almost all of them
            return byte, position + 1
        value = 0
        for index in range(10):
            if position + index >= end:
                break
            byte = self.data[position + index]
            value |= (byte & 0x7F) << (7 * index)
            if byte < 0x80:
                return value, position + index + 1
        raise _Malformed


def _span(value: int | ByteSpan) -> ByteSpan:
    if isinstance(value, int):
        raise _Malformed
    return value


def _number(value: int | ByteSpan) -> int:
    if not isinstance(value, int):
        raise _Malformed
    return value


def _signed(value: int) -> int:
    """Interpret 64 bits as a signed integer."""
    value &= 2**64 - 1
    return value - 2**64 if value >= 2**63 else value
