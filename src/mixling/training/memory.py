"""Keeps the memory of a long training on a CPU near to what its tensors need; results are not changed.

Batches are of ever other lengths. oneDNN keeps a compiled product for each shape that it has met, 1,024 of them, and
these small long-lived blocks lie between the large short-lived ones of the steps: the C library's heap grows with each
step, though most of it is free. Here oneDNN keeps fewer, and pages that are free go back to the system.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from pathlib import Path

# More than the products of one step of a deep model; those of other steps are seldom met again.
_ONEDNN_PRODUCTS = "128"
# Bytes that the process may grow by before free pages are given back. To get them anew costs the next steps 0.1 s.
_GROWTH = 560 << 20
_STATM = Path("/proc/self/statm")


class Heap:
    """Gives free pages of the C library's heap back to the system as a training goes on, where there is a way to."""

    def __init__(self) -> None:
        # It is read when the first product is made, and what a user has set stays.
        os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", _ONEDNN_PRODUCTS)
        self._trim = _malloc_trim()
        self._growth, self._since = _GROWTH, 0
        self._least = self._resident()

    def limit(self) -> None:
        """Give back what is free if the process has grown, after each step; to look takes some microseconds."""
        now, self._since = self._resident(), self._since + 1
        if now > self._least + self._growth:
            self.release()
            # What each step needs anew is left to it: to give it back every time would cost more than it saves.
            self._growth *= 2 if self._since == 1 else 1
            self._since = 0
        self._least = min(self._least, now)

    def release(self) -> None:
        """Give back what is free."""
        if self._trim is not None:
            self._trim(0)
            self._least = self._resident()

    def _resident(self) -> int:
        """Bytes of the process in memory; 0 where that is not known."""
        if self._trim is None:
            return 0
        return int(_STATM.read_bytes().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def release() -> None:
    """Give back what is free, after work that took much memory and is over."""
    trim = _malloc_trim()
    if trim is not None:
        trim(0)


def _malloc_trim() -> Callable[[int], int] | None:
    """glibc's function, which other C libraries lack."""
    if not _STATM.exists():
        return None
    try:
        return ctypes.CDLL(None).malloc_trim
    except (OSError, AttributeError):
        return None
