"""Calls of the C core's entry points with arguments made of bytes; entry_points.c runs it under sanitizers.

An input is the number of a function and its arguments, one after the other (`Reader.value`). What a call raises for
wrong arguments is an exception of a few kinds; anything else is a finding.
"""

from __future__ import annotations

import contextlib
import gc
import struct
from typing import Any

FORMATS = "bBhHiIqQfd?"
HUGE = (-1, -(2**63), 2**63 - 1, 2**62, 2**32, 2**31, 2**31 - 1, 2**24 + 1, -(2**31), 2**64, 2**16, 2**20)
# IndexError: too few arguments.
ALLOWED = (ValueError, TypeError, OverflowError, IndexError, BufferError, MemoryError, NotImplementedError)
LARGEST = 1 << 16  # elements of an array


class Reader:
    """Makes values of bytes; beyond their end all bytes are 0."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def byte(self) -> int:
        self.at += 1
        return self.data[self.at - 1] if self.at <= len(self.data) else 0

    def number(self, code: str) -> Any:
        size = struct.calcsize(code)
        piece = self.data[self.at : self.at + size].ljust(size, b"\0")
        self.at += size
        return struct.unpack(code, piece)[0]

    def bytes(self) -> bytes:
        size = self.number("<H")
        self.at += size
        return self.data[self.at - size : self.at]

    def value(self, depth: int = 0) -> Any:
        """Return the next value: of Python, or an array."""
        kind = self.byte()
        match kind % 12:
            case 0:
                return None
            case 1:
                return bool(self.byte() & 1)
            case 2:
                return self.number("<h")
            case 3:
                return HUGE[self.byte() % len(HUGE)]
            case 4:
                return self.number("<d")
            case 5:
                return self.bytes().decode("utf-8", "surrogatepass" if kind < 128 else "replace")
            case 6:
                return self.bytes()
            case 7 | 8 if depth < 4:
                items = [self.value(depth + 1) for _ in range(min(self.byte(), 64)) if self.at < len(self.data)]
                return tuple(items) if kind % 12 == 7 else items
            case 9 | 10:
                return self.array(kind)
            case _:
                return self.number("<q")

    def array(self, kind: int) -> Any:
        """Return a buffer: its elements' type, its shape, whether it is odd or read-only, and its content."""
        form, flags, rank = FORMATS[self.byte() % len(FORMATS)], self.byte(), self.byte() % 4
        shape = [self.number("<H") for _ in range(rank)]
        size = struct.calcsize(form)
        number = 1
        for extent in shape:
            number *= extent
        if number > LARGEST or (not number and rank > 1):  # memoryview has no empty matrices
            shape, number = [min(number, LARGEST)], min(number, LARGEST)
        if kind % 12 == 10:
            content = self.bytes()[: number * size].ljust(number * size, b"\0")
        else:  # the same number, or all numbers
            fill = self.number("<b")
            pack = float if form in "fd" else bool if form == "?" else abs if form in "BHIQ" else int
            values = [(fill + i) % 100 for i in range(100)] if flags & 4 else [fill]
            pattern = b"".join(struct.pack(form, pack(value)) for value in values)
            content = (pattern * (number // len(values) + 1))[: number * size]
        odd = flags & 1
        owner = bytearray(odd) + content
        view = memoryview(owner)[odd:]
        if flags & 2:
            view = view.toreadonly()
        if number:
            view = view.cast(form, shape) if rank else view.cast(form)
        return view[::-1] if flags & 8 and rank == 1 else view


def write(value: Any) -> bytes:
    """Return the bytes of which `Reader.value` makes a value; for seeds."""
    match value:
        case None:
            return b"\x00"
        case bool():
            return b"\x01" + bytes([value])
        case int():
            if -(2**15) <= value < 2**15:
                return b"\x02" + struct.pack("<h", value)
            return b"\x0b" + struct.pack("<q", value)
        case float():
            return b"\x04" + struct.pack("<d", value)
        case str():
            return b"\x05" + struct.pack("<H", len(text := value.encode("utf-8", "surrogatepass"))) + text
        case bytes():
            return b"\x06" + struct.pack("<H", len(value)) + value
        case tuple() | list():
            return bytes([7 + isinstance(value, list), len(value)]) + b"".join(map(write, value))
        case _:
            view = memoryview(value)
            form, content = view.format.replace("l", "q").replace("L", "Q"), view.tobytes()  # type: ignore[union-attr]
            head = bytes([FORMATS.index(form), 0, view.ndim]) + struct.pack(f"<{view.ndim}H", *view.shape)  # type: ignore[arg-type]
            return b"\x0a" + head + struct.pack("<H", len(content)) + content


# In the order of the kept inputs: what is new comes last.
METHODS = ("predict", "kept", "lines", "tag", "answer", "words", "features", "normalize", "decide")
MODULES = (
    ("_counts", ("count_pairs", "multiply_upper")),
    ("_margins", ("fit_margins", "sum_by_feature")),
    ("_steps", (
        "feed_forward", "feed_forward_backward", "token_mlp", "token_mlp_backward", "generated", "generated_backward",
        "windows", "windows_backward", "pools", "pools_backward", "sum_bags", "add_bags", "sequence_losses",
        "sequence_losses_backward", "train", "evaluate",
    )),
    ("_core", ("normalize", "word_spans", "number", "date")),
    ("_counts", ("multiply_dense", "multiply_sparse", "transpose", "dot", "add_dot")),
    ("_margins", ("fit_own_terms",)),
)  # fmt: skip
LATER = ("pooled", "vectors")  # methods, too
CALLS: list[Any] = []


class Decided:
    """A prediction that the C core makes."""

    __slots__ = ("_make", "_row", "abstained", "empty", "label", "label_set", "truncated")


def names(number: int) -> list[str]:
    """Return the names of what is called, of so many models; the first byte of an input is an index of it."""
    core = ["Model", "misspell", "split", "hash", "best"]
    functions = [name for _, names in MODULES for name in names]
    return [*METHODS * number, *core, *functions, *LATER * number, "columns", "duplicates", "nearest", "tag_chances"]


def methods(model: Any) -> list[Any]:
    """Return what a model can be asked, in the order of `METHODS`."""
    return [*(getattr(model, name) for name in METHODS[:-1]), model.decider(Decided, True)]


def start(models: list[bytes]) -> None:
    """Open the models."""
    import _core
    import _counts

    opened = [_core.Model(content, 1 << 12, 1) for content in models]
    for model in opened:
        CALLS.extend(methods(model))

    def split(texts: Any, contractions: Any, chars: Any, words: Any, word_chars: Any) -> Any:
        limits = {"max_chars": chars, "max_words": words, "max_word_chars": word_chars}
        return _core.Splitter(contractions=contractions, **limits).split(texts)

    def hash_words(words: Any, *rest: Any) -> Any:
        return _core.Hasher(*rest).features(words)

    def best(logits: Any, lengths: Any, *rest: Any) -> Any:
        return _core.Tagger(*rest).best(logits, lengths)

    def tag_chances(logits: Any, *rest: Any) -> Any:
        return _core.Tagger(*rest).probabilities(logits)

    def columns(description: Any, *rows: Any) -> Any:
        return _core.Columns(description).encode(rows)

    def duplicates(bands: Any, hashes: Any, threshold: Any, least: Any, *texts: Any) -> None:
        finder = _counts.new_duplicates(bands, hashes, threshold, least)
        for i in range(0, len(texts), 3):
            _counts.add_texts(finder, *texts[i : i + 3])

    def nearest(vectors: Any, queries: Any, *rest: Any) -> Any:  # of all vectors with all others, some seconds
        return _counts.nearest(vectors, queries[:64], *rest)

    CALLS.extend([_core.Model, _core.misspell, split, hash_words, best])
    for module, functions in MODULES:
        CALLS.extend(getattr(__import__(module), name) for name in functions)
    CALLS.extend(getattr(model, name) for model in opened for name in LATER)
    CALLS.extend([columns, duplicates, nearest, tag_chances])
    assert len(CALLS) == len(names(len(models)))
    gc.disable()


def run(data: bytes) -> None:
    """Make the call that an input describes."""
    reader = Reader(data)
    call = CALLS[reader.byte() % len(CALLS)]
    try:
        arguments = [reader.value() for _ in range(min(reader.byte(), 40))]
    except (ValueError, TypeError, OverflowError, struct.error):  # not what Python can make
        return
    with contextlib.suppress(*ALLOWED):
        call(*arguments)
