"""Run commands in a pseudo-terminal, and read what is then on its screen: for recording.py and first_minutes.py."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import termios
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple
from unicodedata import combining, east_asian_width

SEQUENCE = re.compile(
    r"\x1b\[(?P<values>[0-9;?]*)(?P<final>[A-Za-z])|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[^\[\]]|(?P<text>.)",
    re.DOTALL,
)
COLORS = ("#484f58", "#ff7b72", "#3fb950", "#d29922", "#58a6ff", "#bc8cff", "#39c5cf", "#b1bac4")
BRIGHT = ("#6e7681", "#ffa198", "#56d364", "#e3b341", "#79c0ff", "#d2a8ff", "#56d4dd", "#ffffff")


class Style(NamedTuple):
    """How a character looks; colors None: as the terminal's."""

    color: str | None = None
    behind: str | None = None
    bold: bool = False
    dim: bool = False


PLAIN = Style()


class Recorded(NamedTuple):
    """What a command wrote, in pieces with the seconds since its start, its exit code, and the seconds it took."""

    pieces: list[tuple[float, str]]
    code: int
    seconds: float


def run(
    command: Sequence[str],
    *,
    folder: Path,
    environment: Mapping[str, str],
    size: tuple[int, int] | None = (100, 30),
    limit: float = 3600,
) -> Recorded:
    """Run a command, in a terminal of so many columns and rows, or with a pipe for its output (`size` is None)."""
    if size is None:
        reader, writer = os.pipe()
    else:
        reader, writer = pty.openpty()
        fcntl.ioctl(writer, termios.TIOCSWINSZ, struct.pack("HHHH", size[1], size[0], 0, 0))
    begin, pieces, rest = time.monotonic(), [], b""
    typed = subprocess.DEVNULL if size is None else writer
    process = subprocess.Popen(
        command, cwd=folder, env=environment, stdin=typed, stdout=writer, stderr=writer, start_new_session=True
    )
    os.close(writer)
    while select.select([reader], [], [], max(limit - (time.monotonic() - begin), 0))[0]:
        try:
            new = os.read(reader, 65536)
        except OSError:  # Linux: the other end of the terminal is closed
            break
        if not new:
            break
        text = (rest + new).decode("utf-8", "ignore")
        text = re.sub(r"\x1b(\[[0-9;?]*)?$", "", text)
        rest = (rest + new)[len(text.encode("utf-8")) :]  # a character, or a sequence, that has not arrived as a whole
        pieces.append((time.monotonic() - begin, text))
    else:
        process.kill()
    code = process.wait()
    os.close(reader)
    return Recorded(pieces, code, time.monotonic() - begin)


@dataclass
class Screen:
    """The lines of a terminal that is never full and never wraps, and when each was changed last."""

    lines: list[list[tuple[str, Style]]] = field(default_factory=lambda: [[]])
    changed: list[float] = field(default_factory=lambda: [0.0])
    row: int = 0
    column: int = 0
    style: Style = PLAIN

    def write(self, text: str, seconds: float = 0.0) -> None:
        """Show a text, with its control sequences."""
        for match in SEQUENCE.finditer(text):
            if match["text"] is not None:
                self._character(match["text"], seconds)
            elif match["final"]:
                self._control(match["final"], match["values"].lstrip("?").split(";"))

    def texts(self) -> list[str]:
        """Return the lines without their styles."""
        return ["".join(character for character, _ in line).rstrip() for line in self.lines]

    def _character(self, character: str, seconds: float) -> None:
        if character == "\r":
            self.column = 0
        elif character == "\n":
            self._move(self.row + 1)
        elif character == "\b":
            self.column = max(self.column - 1, 0)
        elif character >= " ":
            line = self.lines[self.row]
            line.extend([(" ", PLAIN)] * (self.column + 1 - len(line)))
            line[self.column] = (character, self.style)
            self.changed[self.row] = seconds
            self.column += 1

    def _control(self, final: str, values: list[str]) -> None:
        first = int(values[0] or 0)
        if final == "A":
            self._move(max(self.row - max(first, 1), 0))
        elif final == "B":
            self._move(self.row + max(first, 1))
        elif final == "G":
            self.column = max(first - 1, 0)
        elif final == "K":
            line = self.lines[self.row]
            del line[0 if first == 2 else self.column :]
        elif final == "J":
            del self.lines[self.row][self.column :], self.lines[self.row + 1 :], self.changed[self.row + 1 :]
        elif final == "m":
            self._styled([int(value or 0) for value in values])

    def _styled(self, codes: list[int]) -> None:
        while codes:
            code = codes.pop(0)
            if code == 0:
                self.style = PLAIN
            elif code in (1, 2):
                self.style = self.style._replace(**{("bold", "dim")[code - 1]: True})
            elif code == 22:
                self.style = self.style._replace(bold=False, dim=False)
            elif code in (38, 48):  # of 256 colors, or red, green and blue
                values, codes = codes[: 2 if codes[0] == 5 else 4], codes[2 if codes[0] == 5 else 4 :]
                name = "color" if code == 38 else "behind"
                self.style = self.style._replace(**{name: _color(values)})
            elif code in (39, 49):
                self.style = self.style._replace(**{"color" if code == 39 else "behind": None})
            elif 40 <= code < 48:
                self.style = self.style._replace(behind=COLORS[code % 10])
            elif 30 <= code < 38 or 90 <= code < 98:
                self.style = self.style._replace(color=(COLORS if code < 90 else BRIGHT)[code % 10])

    def _move(self, row: int) -> None:
        self.row = row
        while len(self.lines) <= row:
            self.lines.append([])
            self.changed.append(self.changed[-1])


def _color(values: list[int]) -> str:
    if values[0] == 2:
        return "#{:02x}{:02x}{:02x}".format(*values[1:])
    number = values[1]
    if number < 16:
        return (COLORS + BRIGHT)[number]
    if number >= 232:
        return "#" + f"{8 + 10 * (number - 232):02x}" * 3
    levels = [0, 95, 135, 175, 215, 255]
    return "#" + "".join(f"{levels[(number - 16) // step % 6]:02x}" for step in (36, 6, 1))


def screen_of(recorded: Recorded) -> Screen:
    """Return what is on the screen when a command has ended."""
    screen = Screen()
    for seconds, text in recorded.pieces:
        screen.write(text, seconds)
    return screen


def columns_of(text: str) -> int:
    """Return how many columns of a terminal a text takes."""
    return sum(0 if combining(sign) else 2 if east_asian_width(sign) in "WF" else 1 for sign in text)
