"""Draw the packages by layer: write docs/architecture.svg and docs/architecture.md from the source.

    python tools/docs/architecture.py

Standard library only. The layers are those of pyproject.toml, which import-linter holds. A test in tests/docs fails
while the committed files differ from what this script makes.
"""

from __future__ import annotations

import ast
import re
import tomllib
from dataclasses import dataclass
from html import escape
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "mixling"

Imports = dict[str, frozenset[str]]


@dataclass(frozen=True)
class Architecture:
    imports: Imports  # of each package, what it imports directly
    summaries: dict[str, str]  # first line of each package's docstring
    layers: tuple[tuple[str, ...], ...]  # the highest first; the last one also has what no layer names


def read(source: Path = SOURCE, project: Path = ROOT / "pyproject.toml") -> Architecture:
    """Read the imports between the packages of a source folder, those inside functions too, and their layers."""
    imports: dict[str, set[str]] = {}
    summaries: dict[str, str] = {}
    for path in sorted(source.rglob("*.py")):
        parts = path.relative_to(source).with_suffix("").parts
        if parts[0] in ("__init__", "__main__"):  # the facade and the start import what they like
            continue
        tree = ast.parse(path.read_text("utf-8"))
        if len(parts) == 1 or parts[1:] == ("__init__",):
            summaries[parts[0]] = (ast.get_docstring(tree) or "").split("\n", 1)[0]
        found = imports.setdefault(parts[0], set())
        for node in ast.walk(tree):
            found.update(_packages_of(node, source.name))
        found.discard(parts[0])
    contract = tomllib.loads(project.read_text("utf-8"))["tool"]["importlinter"]["contracts"][0]["layers"]
    named = [re.findall(rf"{source.name}\.(\w+)", layer) for layer in contract]
    rest = sorted(imports.keys() - {name for layer in named for name in layer})
    rows = [*named[:-1], sorted({*named[-1], *rest})]
    return Architecture({name: frozenset(found) for name, found in imports.items()}, summaries, tuple(map(tuple, rows)))


def _packages_of(node: ast.AST, root: str) -> set[str]:
    """Return the packages below root that an import statement names."""
    if isinstance(node, ast.Import):
        names = [alias.name for alias in node.names]
    elif isinstance(node, ast.ImportFrom) and node.module == root:
        names = [f"{root}.{alias.name}" for alias in node.names if not alias.name.startswith("_")]
    elif isinstance(node, ast.ImportFrom) and node.module:
        names = [node.module]
    else:
        return set()
    return {name.split(".")[1] for name in names if name.startswith(f"{root}.")}


# --- picture ---------------------------------------------------------------------------------------------------------

WIDTH, LEFT, BOX, HEIGHT, STEP, TOP, GAP = 880, 176, 104, 30, 40, 6, 10
FONT = 'font-family="-apple-system, Segoe UI, Helvetica, Arial, sans-serif" font-size="13"'
GROUPS = {  # the highest package of each: what its layers are for
    "research": "People and programs",
    "runs": "Training runs and files",
    "runtime": "Answers",
    "data": "Rows and models",
    "networks": "Texts and numbers",
    "config": "Everything above uses",
}
STYLE = """
.page { fill: #fff } .band { fill: #f6f8fa } .box { fill: #ddf4ff; stroke: #54aeff } text { fill: #1f2328 }
.quiet { fill: #59636e }
@media (prefers-color-scheme: dark) {
  .page { fill: #0d1117 } .band { fill: #161b22 } .box { fill: #0c2d6b; stroke: #388bfd } text { fill: #e6edf3 }
  .quiet { fill: #9198a1 }
}
"""


def picture(architecture: Architecture) -> str:
    """Return the SVG: a line of boxes for each layer, below those that may import it."""
    parts: list[str] = []
    bands: list[tuple[str, float]] = []
    y = TOP
    for layer in architecture.layers:
        if layer[0] in GROUPS or not bands:
            y += GAP
            bands.append((GROUPS.get(layer[0], ""), y))
        for first in range(0, len(layer), _COLUMNS):
            for column, name in enumerate(layer[first : first + _COLUMNS]):
                parts.append(_box(LEFT + column * (BOX + GAP), y + GAP / 2, name))
            y += STEP
    edges = [top for _, top in bands[1:]] + [y + GAP]
    drawn = [_band(title, top, edge - GAP) for (title, top), edge in zip(bands, edges, strict=True)]
    height = y + 44
    note = "A package imports only lines below its own."
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:g}" {FONT}>',
        "<title>The packages of mixling, by layer</title>", f"<style>{STYLE}</style>",
        f'<rect class="page" width="{WIDTH}" height="{height:g}" rx="6"/>', *drawn, *parts,
        f'<text class="quiet" x="{LEFT}" y="{height - 16:g}">{note}</text>', "</svg>", "",
    ])  # fmt: skip


_COLUMNS = (WIDTH - LEFT) // (BOX + GAP)


def _band(title: str, top: float, bottom: float) -> str:
    return (
        f'<rect class="band" x="12" y="{top:g}" width="{WIDTH - 24}" height="{bottom - top:g}" rx="6"/>'
        f'<text class="quiet" x="24" y="{top + GAP / 2 + HEIGHT / 2 + 5:g}">{escape(title)}</text>'
    )


def _box(left: float, top: float, name: str) -> str:
    return (
        f'<rect class="box" x="{left:g}" y="{top:g}" width="{BOX}" height="{HEIGHT}" rx="6"/>'
        f'<text x="{left + BOX / 2:g}" y="{top + HEIGHT / 2 + 5:g}" text-anchor="middle">{escape(name)}</text>'
    )


# --- page ------------------------------------------------------------------------------------------------------------

PAGE = """<!-- Generated by tools/docs/architecture.py; do not edit. -->
# Architecture

![The packages of mixling, by layer](architecture.svg)

Each line is a layer, and a package imports only layers below its own; `lint-imports` holds this in `make check`. The
[glossary](glossary.md) defines the words, and the [decision records](decisions/README.md) give the reasons.

| package | holds | imports |
|---|---|---|
{rows}
"""


def page(architecture: Architecture) -> str:
    """Return docs/architecture.md: the picture, and every package with what it holds and imports."""
    rows = [
        f"| `{name}` | {architecture.summaries[name].replace('|', chr(92) + '|')} | "
        f"{', '.join(f'`{other}`' for other in sorted(architecture.imports[name])) or '-'} |"
        for layer in architecture.layers
        for name in layer
    ]
    return PAGE.format(rows="\n".join(rows))


def files(architecture: Architecture) -> dict[str, str]:
    """Return the generated files by name."""
    return {"architecture.svg": picture(architecture), "architecture.md": page(architecture)}


if __name__ == "__main__":
    for name, content in files(read()).items():
        (ROOT / "docs" / name).write_text(content, "utf-8")
