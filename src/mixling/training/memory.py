"""Limiting the memory of long training on a CPU.

Batches have many different lengths. oneDNN caches a compiled primitive for each shape, up to 1,024 of them, and these
small long-lived blocks fragment the heap between the large short-lived blocks of the steps, so that it grows although
most of it is free. Here oneDNN caches fewer, and free pages are returned to the system. Results do not change.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from pathlib import Path

# More primitives than one step of a deep model needs; primitives of other steps are rarely reused.
_ONEDNN_PRIMITIVES = "128"
# Bytes by which the process may grow before free pages are returned; allocating them again costs 0.1 s.
_GROWTH = 320 << 20
_STATM = Path("/proc/self/statm")


class Heap:
    """The C library's heap, whose free pages are returned to the system during training, if glibc is in use."""

    def __init__(self) -> None:
        # oneDNN reads the variable when it creates the first primitive; a user's value has priority.
        os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", _ONEDNN_PRIMITIVES)
        self._trim = _malloc_trim()
        self._growth = _GROWTH
        self._since = 0
        self._least = self._resident()

    def limit(self) -> None:
        """Release free pages if the process has grown; to be called after each step, takes some microseconds."""
        now = self._resident()
        self._since = self._since + 1
        if now > self._least + self._growth:
            self.release()
            # If each step needs that much memory, releasing it every time would cost more than it saves.
            self._growth *= 2 if self._since == 1 else 1
            self._since = 0
        self._least = min(self._least, now)

    def make_room(self) -> None:
        """Release free pages before work that needs other memory than the steps, unless there are few."""
        if self._resident() > self._least + _GROWTH // 2:
            self.release()

    def release(self) -> None:
        """Return free pages to the system."""
        if self._trim is not None:
            self._trim(0)
            self._least = self._resident()

    def _resident(self) -> int:
        """Return the resident memory of the process in bytes; 0 if unknown."""
        if self._trim is None:
            return 0
        return int(_STATM.read_bytes().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def release() -> None:
    """Return free pages to the system after work that needed much memory."""
    if (trim := _malloc_trim()) is not None:
        trim(0)


def _malloc_trim() -> Callable[[int], int] | None:
    """Return glibc's malloc_trim; None with other C libraries."""
    if not _STATM.exists():
        return None
    try:
        return ctypes.CDLL(None).malloc_trim
    except (OSError, AttributeError):
        return None
