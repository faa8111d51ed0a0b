"""Standard output, and what is told when it cannot take more."""

from __future__ import annotations

import contextlib
import gc
import os
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass

from mixling.errors import StorageError, printable


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
    """Write text to standard output at once, in UTF-8; raises as `standard_output` does.

    A file or a pipe gets it as it stands, a terminal without what could steer it.
    """
    with standard_output():
        if sys.stdout.isatty():
            text = printable(text, keep="\n\t")
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


@dataclass(frozen=True)
class Started:
    """A command that has announced itself.

    command: its name. at: seconds of the monotonic clock.
    """

    command: str
    at: float

    def total_time(self) -> str:
        """Return how long the command has taken, for people."""
        return f"total time {format_seconds(time.monotonic() - self.at)}"


def announce(command: str) -> Started:
    """Write a line to standard error before a command imports what takes seconds.

    Of several processes of torchrun the first writes.
    """
    if os.environ.get("RANK", "0") == "0":
        print(f"mixling {command}: loading PyTorch", file=sys.stderr, flush=True)
    return Started(command, time.monotonic())


def time_budget_line(seconds: float) -> str:
    """Return what a time budget is of, since the whole command takes longer."""
    return f"time budget: {format_seconds(seconds)} for training; reading the data and the export come on top"


def format_seconds(seconds: float) -> str:
    """Return a duration for people: 8 s, 3 m 05 s, 2 h 00 m."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    return f"{whole // 60} m {whole % 60:02} s" if whole < 3600 else f"{whole // 3600} h {whole % 3600 // 60:02} m"
