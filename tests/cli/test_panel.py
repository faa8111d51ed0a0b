"""The panel that closes a training."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from mixling.cli.panel import command_rows, print_panel

ROWS = [("accuracy", "0.9"), *command_rows([("predict", "a model", "a text"), ("show", "a model")])]


def printed(*, terminal: bool, width: int = 80, color: bool = True) -> str:
    console = Console(file=io.StringIO(), force_terminal=terminal, width=width, no_color=not color, highlight=False)
    print_panel(console, "model", ROWS)
    return console.file.getvalue()  # type: ignore[attr-defined]


def test_lines_without_a_terminal_can_be_pasted() -> None:
    assert printed(terminal=False).splitlines() == [
        "accuracy  0.9",
        "next      mixling predict 'a model' 'a text'",
        "          mixling show 'a model'",
    ]


def test_a_terminal_has_a_box_with_every_row() -> None:
    first, *body, last = printed(terminal=True, color=False).splitlines()
    assert (first.count("╭"), last.count("╯"), len(body)) == (1, 1, 3)
    assert "model" in first


@pytest.mark.parametrize("color", [True, False])
def test_no_color_has_no_colors(color: bool) -> None:
    assert ("\x1b[1;36m" in printed(terminal=True, color=color)) is color


def test_a_box_that_does_not_fit_is_left_out() -> None:
    assert printed(terminal=True, width=30) == printed(terminal=False)
