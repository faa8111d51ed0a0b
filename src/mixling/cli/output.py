"""Writing to the standard streams."""

from __future__ import annotations

import contextlib
import gc
import os
import re
import shutil
import sys
import textwrap
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TextIO

from mixling.errors import StorageError, printable
from mixling.limits import require_memory_of_torch


@contextlib.contextmanager
def standard_output() -> Iterator[None]:
    """Translate the errors of a block that writes to standard output.

    Raises:
        StorageError: it cannot be written, for instance because the disk is full.
        BrokenPipeError: the reader has closed the pipe.
    """
    try:
        yield
    except OSError as error:
        # Buffered output must not fail again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        if isinstance(error, BrokenPipeError):
            raise
        raise StorageError(f"standard output: could not be written: {error.strerror or error}") from None


def put(text: str, *, styled: bool = False) -> None:
    """Write text to standard output at once, in UTF-8; on a terminal without control characters.

    Args:
        styled: the text has escape sequences of its own, and no others.

    Raises:
        StorageError, BrokenPipeError: see `standard_output`.
    """
    with standard_output():
        if sys.stdout.isatty() and not styled:
            text = printable(text, keep="\n\t")
        sys.stdout.buffer.write(text.encode("utf-8", "replace"))
        sys.stdout.buffer.flush()


_COLORS = re.compile(r"\033\[[0-9;]*m")


def wrapped(text: str, stream: TextIO | None = None, *, column: int = 0) -> str:
    """Return text with long lines broken between words if it is for a terminal; other text as it is.

    A line that is a command can still be pasted.

    Args:
        stream: where it is written to [standard output].
        column: where the values begin, if lines have a name and a value; 0: they are sentences.
    """
    stream = stream or sys.stdout
    if not stream.isatty():
        return text
    width = shutil.get_terminal_size().columns
    lines = []
    for line in text.split("\n"):
        is_cells = "   " in line.strip() and not column
        if len(_COLORS.sub("", line)) <= width or is_cells:  # fits, or is of a table
            lines.append(line)
            continue
        if line.startswith("mixling "):
            lines += _wrapped_command(line, width)
            continue
        if "\033" in line:
            lines += _wrapped_colors(line, width)
            continue
        begin = len(line) - len(line[column:].lstrip()) if column else len(line) - len(line.lstrip()) + 2
        indent = " " * begin
        lines += textwrap.wrap(line, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
    return "\n".join(lines)


def _wrapped_command(line: str, width: int) -> list[str]:
    """Return the lines of a long command, which can be pasted together."""
    lines = [""]
    for word in re.findall(r"(?:'[^']*'|\S)+", line):
        if lines[-1].strip() and len(lines[-1]) + len(word) + 2 >= width:
            lines[-1] += "\\"
            lines.append("    ")
        lines[-1] += word + " "
    return [*lines[:-1], lines[-1].rstrip()]


def _wrapped_colors(line: str, width: int) -> list[str]:
    """Return the lines of a long one with colored words, each with the indent of the first."""
    indent = " " * (len(line) - len(line.lstrip()))
    lines: list[str] = []
    room = 0
    for word in line.split():
        size = len(_COLORS.sub("", word))
        if size + 1 > room:
            lines.append(indent + word)
            room = width - len(indent) - size
        else:
            lines[-1] += f" {word}"
            room -= size + 1
    return lines


def open_closed_streams() -> None:
    """Open the null device for standard streams that are closed (`>&-`); else a file could get their descriptors."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115 (until the process ends)


_OBJECTS = 100_000  # that are made between two collections of garbage


@contextlib.contextmanager
def no_collections() -> Iterator[None]:
    """Disable garbage collection in a short block of imports, where it takes a fifth of the time."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


@dataclass(frozen=True)
class Stopwatch:
    """The name of a command, and the time of its start in seconds of the monotonic clock."""

    command: str
    at: float

    def elapsed(self) -> str:
        """Return the time that the command has taken, as readable text."""
        return format_seconds(time.monotonic() - self.at)

    def total_time(self) -> str:
        """Return a line with the time that the command has taken."""
        return f"total time {self.elapsed()}"


def announce(command: str, *, loads: str = "") -> Stopwatch:
    """Start a command's time.

    Args:
        loads: what takes seconds to import, which a line to standard error says; under torchrun only the first process.
    """
    if loads and os.environ.get("RANK", "0") == "0":
        print(f"mixling {command}: loading {loads}", file=sys.stderr, flush=True)
        require_memory_of_torch()
    # Modules make half a million objects that stay; to look through these at the usual intervals takes half a second.
    gc.set_threshold(_OBJECTS)
    return Stopwatch(command, time.monotonic())


def bad_rows_line(number: int) -> str:
    """Return a line with the number of rows that were skipped."""
    rows = "1 bad row has" if number == 1 else f"{number:,} bad rows have"
    return f"{rows} an error instead of a prediction"


def time_budget_line(seconds: float) -> str:
    """Return a line that states what a time budget covers."""
    return f"time budget: {format_seconds(seconds)} from reading the data to the last figure"


def format_seconds(seconds: float) -> str:
    """Return a duration as readable text: 8 s, 3 m 05 s, 2 h 00 m."""
    total = round(seconds)
    if total < 60:
        return f"{total} s"
    return f"{total // 60} m {total % 60:02} s" if total < 3600 else f"{total // 3600} h {total % 3600 // 60:02} m"


def has_display() -> bool:
    """Return whether a page can be opened for whoever sits at the terminal."""
    if not sys.stdout.isatty():
        return False
    return sys.platform in ("darwin", "win32") or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
