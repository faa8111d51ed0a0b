"""Make each allocation of the C core fail, one after the other: fuzz/failing_memory.sh

For every call of the corpus of entry_points, and for opening each model, the first allocation fails, then the second,
and so on until the call ends without meeting the failure. Each time there must be one MemoryError, and afterwards the
same objects must give the answer that they gave before. The address sanitizer ends the program where memory is read,
written or freed wrongly, and the blocks that the core has not freed are counted. Prints the source lines that allocate,
and those of them that were not made to fail.
"""

from __future__ import annotations

import contextlib
import itertools
import re
import struct
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import _core  # type: ignore[import-not-found]
import _failing  # type: ignore[import-not-found]
import entry_points

FUZZ = Path(__file__).parent
NATIVE = FUZZ.parent / "src" / "mixling" / "native"
# Where memory is asked for: what these functions of the core call is at the line of who calls them.
ALLOCATION = re.compile(r"\b(malloc|calloc|realloc|PyMem_Malloc)\(")


def sealed(body: bytes) -> bytes:
    """Return a file of fuzz/models with its seal."""
    import hashlib

    return body + b"\x72\x52\x0a\x0emixling_sha256\x12\x40" + hashlib.sha256(body).hexdigest().encode()


def outcome(call: Callable[[], Any]) -> tuple[str, Any]:
    """Return what a call returns, or the name of what it raises."""
    try:
        return "", call()
    except entry_points.ALLOWED as error:
        return type(error).__name__, None


def each_fails(name: str, make: Callable[[], Callable[[], Any]]) -> int:
    """Make each allocation of a call fail; return how many there are.

    Args:
        make: returns the call, with objects of its own.
    """
    expected = outcome(make())
    for n in itertools.count():
        before, call = _failing.live(), make()
        _failing.after(n)
        found = outcome(call)
        if not _failing.after(-1):
            assert found == expected, f"{name}: {found}, not {expected}"
            return n
        if found[0] != "MemoryError" and found != expected:
            sys.exit(f"{name}: allocation {n} fails: {found} instead of a MemoryError; without: {expected}")
        if found[0] != "MemoryError":
            SWALLOWED.add((name, n))
        again = outcome(call)
        assert again == expected or name in WRITES, f"{name}: after a failure of {n}: {again}, not {expected}"
        del call
        assert _failing.live() == before, (
            f"{name}: {_failing.live() - before} blocks are not freed after a failure of {n}"
        )
    raise AssertionError


SWALLOWED: set[tuple[str, int]] = set()
WRITES = {*itertools.chain(*entry_points.MODULES.values())}  # into their arguments, which a second call finds changed


def main() -> None:
    """Run all calls."""
    files = [sealed((FUZZ / "models" / name).read_bytes()) for name in sys.argv[1].split(",")]
    number = 0
    for content in files:

        def opened(content: bytes = content) -> Callable[[], Any]:
            return lambda: _core.Model(content, 1 << 12, 1).task

        number += each_fails("open", opened)
    names = entry_points.names(len(files))
    entry_points.start(files)
    for path in sorted((FUZZ / "corpus" / "entry_points").iterdir()):
        data = path.read_bytes()
        index = data[0] % len(names)

        def make(data: bytes = data, index: int = index) -> Callable[[], Any]:
            reader = entry_points.Reader(data[1:])
            arguments = [reader.value() for _ in range(min(reader.byte(), 40))]
            call = entry_points.CALLS[index]
            if index < len(entry_points.METHODS) * len(files):
                content = files[index // len(entry_points.METHODS)]
                call = entry_points.methods(_core.Model(content, 1 << 12, 1))[index % len(entry_points.METHODS)]

            def run() -> Any:
                result = call(*arguments)
                return re.sub(r" object at 0x\w+", "", repr(result))

            return run

        with contextlib.suppress(ValueError, TypeError, OverflowError, struct.error):
            make()  # arguments that Python can make
            number += each_fails(names[index], make)
    seen = {tuple(place.rsplit("/", 1)[-1].split(":")[:2]) for place in _failing.seen()}
    lines = {
        (file.name, str(line))
        for file in sorted(NATIVE.rglob("*.[ch]"))
        if file.name not in ("example.c", "python.h")
        for line, text in enumerate(file.read_text().splitlines(), 1)
        if ALLOCATION.search(text) or re.search(r"[= ](allocate|zeros|take|block_take|model_take|spaced)\(", text)
    }
    missed = sorted(lines - seen)
    print(f"{number} failures at {len(lines & seen)} of {len(lines)} lines that allocate")
    print("swallowed:", sorted({name for name, _ in SWALLOWED}) or "none")
    print("not reached:", ", ".join(f"{name}:{line}" for name, line in missed) or "none")


if __name__ == "__main__":
    main()
