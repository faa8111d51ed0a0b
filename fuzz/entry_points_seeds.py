"""Calls of the C core as seeds for entry_points.c: python fuzz/entry_points_seeds.py FOLDER

The calls of the tests: of each function the smallest ones, each with other shapes or types.
"""

from __future__ import annotations

import contextlib
import hashlib
import struct
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import entry_points
import numpy as np
import pytest
import seeds

from mixling.native import _counts, _margins, _steps

TESTS = (
    "tests/layers/test_fused.py",
    *(f"tests/native/test_{name}.py" for name in ("boundaries", "margins", "minimize", "own_terms", "sparse")),
)
MOST, LARGEST = 8, 30_000  # calls of a function, bytes of a call
FILM = "what a film, isn't it ΣΣ 각 unbelievable \ud800"
LABELS = (b"bad", b"good", b"ugly")
WORDS = "[UNK]\na\nb\n##a\n##b"
COLUMNS = (
    '[{"name": "a", "kind": "number", "knots": [1.0, 2.0], "mean": 1.5, "deviation": 0.5},'
    ' {"name": "b", "kind": "category", "values": ["b", "c"]},'
    ' {"name": "c", "kind": "date", "day_first": true, "knots": [9.0, 99.0], "mean": 50.0, "deviation": 12.0}]'
)
# The mean of words without a window, for two classes: a table (2, 16), and where the head's matrix and bias begin.
PLAN = np.array([80, 2, 16, 16, 0, 4, 2, 2, -1, -1, -1, -1, 32, 64, -1, 900, 0], np.int64)
NETWORK = (
    16, 1, False, 1e-5, PLAN, np.ones(80, np.float32), 1, 2, 1, 2,
    np.array([[0, 1]], np.int32), None, np.array([[1, 0]], np.int64), np.array([[1, 1]], np.uint8),
)  # fmt: skip
CROSS_ENTROPY = (1, 0.1, 1, np.zeros(1, np.int64), None, None, None)
ADAMW = (True, 1.0, 1.0, 7, 0.9, 0.99, 1e-8, *(np.zeros(80, np.float32) for _ in range(3)))
CORE: dict[str, list[tuple[Any, ...]]] = {
    "predict": [([FILM, ""], True), (((FILM, "a film"),), False)],
    "kept": [("what a film", b"\1\0\1\0\1\1", 3)],
    "decide": [(FILM,), ([FILM, "a", ""],)],
    "lines": [([FILM, "a"], True, LABELS, LABELS, (b"", b"t", b"e", b"te"))],
    "tag": [([FILM, ""], True)],
    "answer": [(("what a film", FILM * 5),)],
    "words": [(FILM,)],
    "features": [("unbelievable",)],
    "normalize": [(0x3A3, 3)],
    "Model": [(b"\x72\x52\x0a\x0emixling_sha256", 100, 1)],
    "misspell": [(["unbelievable", "film"], b"\1\0\0\0\0\0\0\0" * 2, b"\0\4", (b"qwe",) * 26, ((b"l", (b"1", b"I")),))],
    "split": [([FILM, "a a"], True, 1 << 20, 16, 100), ([FILM], False, 40, 4, 9)],
    "hash": [(["abba", "ab", ""], WORDS, 100, 8, 2, 2, 5)],
    "number": [(" 1,234.5e-3 ",)],
    "date": [("31.12.1999", True), ("2026-11-29T08:00:00Z", False)],
    "pooled": [([FILM, ""],)],
    "vectors": [([FILM, ""],)],
    "columns": [(COLUMNS, ("1.5", "b", "2020-01-31"), (None, "z", None))],
    "duplicates": [(8, 4, 0.7, 2, np.arange(2), np.arange(6, dtype=np.int32), np.array([3, 3], np.int32))],
    "nearest": [(np.arange(24, dtype=np.int8), np.arange(8, dtype=np.int8), 8, 2)],
    "tag_chances": [(np.ones((3, 3), np.float32).tobytes(), ("O", "B-a", "I-a"), np.zeros(9, np.float32).tobytes())],
    "evaluate": [(*NETWORK, np.zeros(2, np.float32))],
    "train": [(*NETWORK, *CROSS_ENTROPY, *ADAMW, np.array([[0, 32, 1e-3, 0.1], [32, 80, 1e-3, 0]]), np.zeros(3))],
    "best": [(np.ones((3, 3), np.float32).tobytes(), b"\2\0\0\0\1\0\0\0", ("O", "B-a", "I-a"), None)],
}


def record(folder: Path) -> None:
    """Write the calls of tests, and those above."""
    names = entry_points.names(len(seeds.KINDS))
    found: dict[tuple[Any, ...], bytes] = {}

    def keep(name: str, arguments: tuple[Any, ...]) -> None:
        kind = (name, *(getattr(item, "shape", type(item)) for item in arguments))
        if kind not in found:
            found[kind] = bytes([len(arguments)]) + b"".join(map(entry_points.write, arguments))

    def recorded(name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def record_call(*arguments: Any) -> Any:
            with contextlib.suppress(TypeError, ValueError, BufferError, struct.error):  # tests give wrong ones, too
                keep(name, arguments)
            return call(*arguments)

        return record_call

    for name, calls in CORE.items():
        for arguments in calls:
            keep(name, arguments)
    for module in (_counts, _margins, _steps):
        for name in {*dir(module)} & {*names}:
            setattr(module, name, recorded(name, getattr(module, name)))
    pytest.main([*TESTS, "-q", "-p", "no:cacheprovider", "-W", "ignore::pytest.PytestAssertRewriteWarning"])
    folder.mkdir(parents=True, exist_ok=True)
    for number, name in enumerate(names):
        for content in sorted((value for kind, value in found.items() if kind[0] == name), key=len)[:MOST]:
            if len(content) > LARGEST:
                break
            seed = bytes([number]) + content
            (folder / hashlib.sha1(seed).hexdigest()[:16]).write_bytes(seed)


if __name__ == "__main__":
    record(Path(sys.argv[1]))
