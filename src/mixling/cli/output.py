"""Standard output, and what is told when it cannot take more."""

from __future__ import annotations

import contextlib
import gc
import os
import sys
from collections.abc import Iterator

from mixling.errors import StorageError


@contextlib.contextmanager
def standard_output() -> Iterator[None]:
    """A block that writes to standard output.

    Raises:
        StorageError: the disk is full, or the like.
        BrokenPipeError: its reader has seen enough.
    """
    try:
        yield
    except OSError as error:
        # What is still buffered must not fail again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        if isinstance(error, BrokenPipeError):
            raise
        raise StorageError(f"standard output: could not be written: {error.strerror or error}") from None


def put(text: str) -> None:
    """Write text to standard output as it stands, in UTF-8, at once; raises as `standard_output` does."""
    with standard_output():
        sys.stdout.buffer.write(text.encode("utf-8", "replace"))
        sys.stdout.buffer.flush()


def open_closed_streams() -> None:
    """Give the standard streams that were closed (`>&-`) the null device; else a file would get their numbers."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115 (until the process ends)


@contextlib.contextmanager
def no_collections() -> Iterator[None]:
    """A short block, full of imports, in which no garbage is collected: looking for it takes a fifth of its time."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
