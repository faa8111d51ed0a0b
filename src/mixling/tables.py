"""Tables as text, whose least important columns are left out where the terminal is too narrow."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Collection, Mapping, Sequence


def terminal_width() -> int | None:
    """Return how many characters a line of standard output has; None: it is no terminal, and lines have any length."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def fit_columns(
    columns: Mapping[str, Sequence[str]], width: int | None, *, drop: Sequence[str], left: Collection[str] = ()
) -> str:
    """Return a table whose lines have at most `width` characters, if that is possible without some columns.

    Args:
        columns: cells by header; the first column is left-aligned.
        width: None: any.
        drop: the headers of columns that may be left out, in this order.
        left: further headers whose columns are left-aligned.
    """
    shown, rest = dict(columns), [*drop]
    while True:
        rows = list(zip(*([name, *cells] for name, cells in shown.items()), strict=True))
        text = format_columns(rows, left=[place for place, name in enumerate(shown) if name in left])
        if width is None or not rest or max(map(len, text.splitlines())) <= width:
            return text
        shown.pop(rest.pop(0), None)


def in_blocks(rows: Sequence[Sequence[str]], width: int, *, keys: int = 1) -> str:
    """Return a table in as many blocks, one below the other, as lines of at most `width` characters need.

    Args:
        keys: columns that each block begins with.
    """
    blocks: list[list[int]] = [[]]
    for column in range(keys, len(rows[0])):
        wider = [[row[place] for place in (*range(keys), *blocks[-1], column)] for row in rows]
        if blocks[-1] and max(map(len, format_columns(wider).splitlines())) > width:
            blocks.append([])
        blocks[-1].append(column)
    return "\n\n".join(format_columns([[row[at] for at in (*range(keys), *block)] for row in rows]) for block in blocks)


def format_columns(rows: Sequence[Sequence[str]], *, left: Collection[int] = ()) -> str:
    """Return a table as text with aligned columns, the first one and `left` left-aligned, the others right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for cells in rows:
        aligned = [
            cell.ljust(width) if place in (0, *left) else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(cells, widths, strict=True))
        ]
        lines.append("  ".join(aligned).rstrip())
    return "\n".join(lines)
