"""The panel that closes a training: what the model reached, its size, the time, and the next commands."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from mixling.errors import command_line, printable

if TYPE_CHECKING:
    from rich.console import Console

PanelRow = tuple[str, str]


def command_rows(commands: Sequence[Sequence[str | Path]]) -> list[PanelRow]:
    """Return the rows of the next commands, which can be pasted as they are."""
    lines = (command_line("mixling", *words) for words in commands)
    return [("next" if index == 0 else "", line) for index, line in enumerate(lines)]


def print_panel(console: Console, title: str, rows: Sequence[PanelRow]) -> None:
    """Print rows of a name and a text: in a box on a terminal, elsewhere as lines.

    Commands are not wrapped, so that they can be copied; a box that would not fit is left out.
    """
    width = max(len(name) for name, _ in rows)
    lines = [f"{name:<{width}}  {printable(text)}" for name, text in rows]
    if not console.is_terminal or max(map(len, lines)) + 4 > console.width:
        for line in lines:
            console.print(line.rstrip(), markup=False, soft_wrap=True)
        return
    from rich.panel import Panel
    from rich.text import Text

    body = Text("\n").join(
        Text.assemble((line[:width], "dim"), (line[width:], "bold cyan" if text.startswith("mixling ") else ""))
        for line, (_, text) in zip(lines, rows, strict=True)
    )
    console.print(Panel.fit(body, title=Text(title, "bold"), title_align="left", border_style="dim"))
