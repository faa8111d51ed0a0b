"""HTML: tables for notebooks, in the colors of the page around them, and pages that load nothing."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence

from mixling.errors import printable


def html_table(header: Sequence[str], rows: Iterable[Sequence[object]], *, caption: str = "") -> str:
    """Return a table whose first column is left-aligned, and in which numbers have four digits.

    Args:
        caption: a line above it.
    """
    lines = [_row("th", header), *(_row("td", row) for row in rows)]
    above = f"<caption style='text-align:left;white-space:normal'>{_cell(caption)}</caption>" if caption else ""
    return f"<table>{above}{''.join(lines)}</table>"


def html_page(title: str, body: str, style: str) -> str:
    """Return a complete page that loads nothing, dark where the reader's system is.

    Args:
        title: also the heading.
        body: HTML below it.
        style: CSS.
    """
    name = html.escape(title)
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>{name}</title><style>:root {{ color-scheme: light dark }} {style}</style></head><body><main>
<h1>{name}</h1>
{body}
</main></body></html>
"""


def bar(share: float) -> str:
    """Return a bar of HTML for a share of 0 to 1."""
    width = f"width:{100 * min(max(share, 0), 1):.1f}%"
    return (
        f"<div style='min-width:8em'><div style='{width};height:.7em;background:currentColor;opacity:.5'></div></div>"
    )


class Html(str):
    """A cell that is HTML."""


def _row(tag: str, cells: Sequence[object]) -> str:
    aligned = ("text-align:left", *["text-align:right"] * (len(cells) - 1))
    cells_of = zip(cells, aligned, strict=True)
    return f"<tr>{''.join(f'<{tag} style={style!r}>{_cell(cell)}</{tag}>' for cell, style in cells_of)}</tr>"


def _cell(value: object) -> str:
    if isinstance(value, Html):
        return value
    text = f"{value:.4f}" if isinstance(value, float) else "-" if value is None else str(value)
    return html.escape(printable(text))
