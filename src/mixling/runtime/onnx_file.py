"""What must be known of an ONNX file before native code may read it.

A model file ends in a seal: a metadata entry with the SHA-256 of all bytes before it. It is part of the ONNX format (a
repeated field may stand last), so every ONNX tool reads the file; and damage is found before a parser stumbles over it.
The seal does not stop an author of ill will, so the file is walked as well, and whatever could run for ever or read
another file is refused: graphs inside graphs (loops), functions, operators beyond the ONNX standard, external data.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

ONNX_FILE = "model.onnx"  # in a folder

_KEY = b"mixling_sha256"
# ModelProto.metadata_props (field 14) of 82 bytes: key (field 1) of 14, value (field 2) of 64.
_SEAL = bytes([14 << 3 | 2, 82, 1 << 3 | 2, len(_KEY)]) + _KEY + bytes([2 << 3 | 2, 64])
_SEAL_LENGTH = len(_SEAL) + 64

# A file of two-byte fields would be walked for minutes; our models have a few thousand fields.
_MAX_FIELDS = 1_000_000

Span = tuple[int, int]


def seal(content: bytes) -> bytes:
    """`content`, a serialised ModelProto, with its checksum as the last metadata entry."""
    return content + _SEAL + hashlib.sha256(content).hexdigest().encode()


def read_metadata(data: bytes) -> dict[str, str]:
    """The metadata of a sealed and harmless ONNX file.

    Raises:
        ValueError: the file is none; the text says what it is instead.
    """
    sealed = data[-_SEAL_LENGTH : len(_SEAL) - _SEAL_LENGTH] == _SEAL
    if sealed and hashlib.sha256(data[:-_SEAL_LENGTH]).hexdigest().encode() != data[len(_SEAL) - _SEAL_LENGTH :]:
        raise ValueError("is damaged or was changed: its checksum is not that of its content")
    try:
        metadata = _Walk(data).model()
    except _Malformed:
        raise ValueError("is not a complete ONNX file: it is damaged, cut short or of another format") from None
    if not sealed:
        ours = "is damaged or was changed: it does not end in its checksum"
        raise ValueError(ours if "mixling" in metadata else "is an ONNX file but not a mixling model")
    return metadata


class _Malformed(Exception):
    """The bytes are no message at all."""


class _Walk:
    """Reads the fields of onnx.proto that matter, by their numbers.

    Raises ValueError for what is refused.
    """

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.left = _MAX_FIELDS

    def model(self) -> dict[str, str]:
        metadata: dict[str, str] = {}
        seen = set()
        for number, value in self.fields((0, len(self.data))):
            seen.add(number)
            if number == 7:
                self.graph(_span(value))
            elif number == 8:
                self.domain(dict(self.fields(_span(value))).get(1))
            elif number == 14:
                entry = dict(self.fields(_span(value)))
                metadata[self.text(entry.get(1))] = self.text(entry.get(2))
            elif number in (20, 25):
                raise ValueError("holds functions or training steps, which a mixling model never does")
        if not {1, 7} <= seen:  # ir_version, graph
            raise _Malformed
        return metadata

    def graph(self, span: Span) -> None:
        for number, value in self.fields(span):
            if number == 1:
                self.node(_span(value))
            elif number == 5:
                self.tensor(_span(value))
            elif number == 15:
                raise ValueError("holds sparse weights, which a mixling model never does")

    def node(self, span: Span) -> None:
        for number, value in self.fields(span):
            if number == 7:
                self.domain(value)
            elif number == 5:
                for kind, item in self.fields(_span(value)):
                    if kind in (5, 10):
                        self.tensor(_span(item))
                    elif kind in (6, 11, 22, 23):
                        raise ValueError(
                            "holds a graph within a node (a loop or branch), which a mixling model never does"
                        )

    def tensor(self, span: Span) -> None:
        for number, value in self.fields(span):
            if number == 13 or (number == 14 and value != 0):
                raise ValueError("keeps weights in another file; a mixling model is one file")

    def domain(self, value: int | Span | None) -> None:
        name = self.text(value)
        if name not in ("", "ai.onnx"):
            raise ValueError(f"uses operators of {name[:80]!r}; a mixling model uses those of the ONNX standard only")

    def text(self, value: int | Span | None) -> str:
        if value is None:
            return ""
        start, end = _span(value)
        try:
            return self.data[start:end].decode()
        except UnicodeDecodeError:
            raise _Malformed from None

    def fields(self, span: Span) -> Iterator[tuple[int, int | Span]]:
        """Number and value of each field of a message: an integer, or where its bytes start and end."""
        position, end = span
        while position < end:
            self.left -= 1
            if self.left < 0:
                raise ValueError(f"has more than {_MAX_FIELDS:,} fields, which a mixling model never has")
            tag, position = self.varint(position, end)
            value: int | Span
            match tag & 7:
                case 0:
                    value, position = self.varint(position, end)
                case 2:
                    length, start = self.varint(position, end)
                    position = start + length
                    value = (start, position)
                case 1 | 5 as fixed:
                    start, position = position, position + (8 if fixed == 1 else 4)
                    value = (start, position)
                case _:
                    raise _Malformed
            if position > end:
                raise _Malformed
            yield tag >> 3, value

    def varint(self, position: int, end: int) -> tuple[int, int]:
        value = 0
        for index in range(10):
            if position + index >= end:
                break
            byte = self.data[position + index]
            value |= (byte & 0x7F) << (7 * index)
            if byte < 0x80:
                return value, position + index + 1
        raise _Malformed


def _span(value: int | Span) -> Span:
    if isinstance(value, int):
        raise _Malformed
    return value
