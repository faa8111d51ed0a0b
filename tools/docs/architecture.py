"""Draw which package imports which: write docs/architecture.svg and docs/architecture.md from the source.

    python tools/docs/architecture.py

Standard library only. A test in tests/docs fails while the committed files differ from what this script makes.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from html import escape
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "mixling"

WINGS = ("audit", "comparison", "research", "tuning")
# Only these call the wings; every other package of the core must not know them.
FRONT_DOORS = ("cli", "labeling", "serving")

Imports = dict[str, frozenset[str]]


@dataclass(frozen=True)
class Architecture:
    imports: Imports  # of each package, what it imports directly
    summaries: dict[str, str]  # first line of each package's docstring
    base: tuple[str, ...]  # single modules that everything may import, such as errors

    @property
    def packages(self) -> tuple[str, ...]:
        return tuple(name for name in sorted(self.imports) if name not in self.base)

    @property
    def arrows(self) -> list[tuple[str, str]]:
        return [(name, other) for name in self.packages for other in sorted(self.imports[name] - {*self.base})]

    @property
    def forbidden(self) -> list[tuple[str, str]]:
        """Return the arrows of a circle, and those from the core to a wing."""
        reach = reachable(self.imports)
        return [
            (name, other)
            for name, other in self.arrows
            if name in reach[other] or (other in WINGS and name not in (*WINGS, *FRONT_DOORS))
        ]


def read(source: Path = SOURCE) -> Architecture:
    """Read the imports between the packages of a source folder, those inside functions too."""
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
    base: set[str] = set()
    modules = {name for name in imports if (source / f"{name}.py").is_file()}
    while more := {name for name in modules - base if imports[name] <= base}:
        base |= more
    return Architecture({name: frozenset(found) for name, found in imports.items()}, summaries, tuple(sorted(base)))


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


def reachable(imports: Imports) -> Imports:
    """Return what each package imports directly or through others."""
    reach = {name: set(found) & set(imports) for name, found in imports.items()}
    for through in imports:
        for found in reach.values():
            if through in found:
                found |= reach[through]
    return {name: frozenset(found) for name, found in reach.items()}


def layers(architecture: Architecture) -> list[list[str]]:
    """Return rows of packages, the highest first: each imports only rows below it, but for the arrows of a circle."""
    arrows = {*architecture.arrows} - {*architecture.forbidden}
    level = dict.fromkeys(architecture.packages, 0)
    for _ in level:  # the longest path has at most as many arrows as there are packages
        for name, other in arrows:
            level[name] = max(level[name], level[other] + 1)
    rows: list[list[str]] = [[] for _ in range(max(level.values()) + 1)]
    for name in architecture.packages:
        rows[level[name]].append(name)
    return rows[::-1]


def needed(architecture: Architecture) -> list[tuple[str, str]]:
    """Return the arrows that no other path implies, and all forbidden ones: what the picture draws."""
    reach = reachable({name: architecture.imports[name] for name in architecture.packages})
    forbidden = architecture.forbidden
    return [
        (name, other)
        for name, other in architecture.arrows
        if (name, other) in forbidden
        or not any(other in reach[step] for step in architecture.imports[name] - {other} if step in reach)
    ]


# --- picture ---------------------------------------------------------------------------------------------------------

WIDTH, CORE, BOX, HEIGHT, STEP, TOP = 1080, 640, 118, 38, 88, 64
FONT = 'font-family="DejaVu Sans, Verdana, sans-serif" font-size="14"'
INK, PAPER, LINE, BAD = "#1f2933", "#ffffff", "#8a9ba8", "#d64545"
CORE_FILL, WING_FILL, BASE_FILL = "#dceaf7", "#fdf0d5", "#e8ecef"


def centres(architecture: Architecture) -> dict[str, tuple[float, float]]:
    """Return the center of each package's box, core to the left and wings to the right of a line."""
    found: dict[str, tuple[float, float]] = {}
    arrows = needed(architecture)

    def above(name: str) -> tuple[float, str]:
        """Return the mean x of what imports a package, so that few arrows cross."""
        xs = [found[one][0] for one, other in arrows if other == name and one in found]
        return (sum(xs) / len(xs) if xs else CORE / 2, name)

    for index, row in enumerate(layers(architecture)):
        for names, left, width in (
            (sorted((name for name in row if name not in WINGS), key=above), 0, CORE),
            ([name for name in row if name in WINGS], CORE, WIDTH - CORE),
        ):
            for column, name in enumerate(names, 1):
                found[name] = (left + width * column / (len(names) + 1), TOP + HEIGHT + index * STEP)
    return found


def ends(
    architecture: Architecture, at: dict[str, tuple[float, float]]
) -> dict[tuple[str, str], tuple[tuple[float, float], tuple[float, float]]]:
    """Return where each drawn arrow starts and ends: spread along the boxes; to a wing from the side."""
    arrows = needed(architecture)
    found = {}
    for name, other in arrows:
        down = HEIGHT / 2 if at[name][1] <= at[other][1] else -HEIGHT / 2
        if other in WINGS and name not in WINGS:
            start = (at[name][0] + BOX / 2, at[name][1])
        else:
            start = (_spread(other, [b for a, b in arrows if a == name], at, at[name][0]), at[name][1] + down)
        end = (_spread(name, [a for a, b in arrows if b == other], at, at[other][0]), at[other][1] - down)
        found[name, other] = (start, end)
    return found


def _spread(one: str, neighbors: list[str], at: dict[str, tuple[float, float]], center: float) -> float:
    """Return the x where the arrow to one neighbor touches a box, in the order of the neighbors' own x."""
    order = sorted(neighbors, key=lambda name: (at[name][0], name))
    return center + BOX * 0.8 * ((order.index(one) + 1) / (len(order) + 1) - 0.5)


def picture(architecture: Architecture) -> str:
    """Return the SVG: rows are layers, an arrow is an import, red is what must not be."""
    at = centres(architecture)
    forbidden = architecture.forbidden
    bottom = max(y for _, y in at.values()) + HEIGHT + 24
    height = bottom + HEIGHT + 60
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:g}" {FONT}>',
        "<title>Packages of mixling and their imports</title>",
        "<defs>",
        *(
            f'<marker id="{name}" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="6" markerHeight="6" orient="auto">'
            f'<path d="M0 0 L8 4 L0 8 z" fill="{color}"/></marker>'
            for name, color in (("line", LINE), ("bad", BAD))
        ),
        "</defs>",
        f'<rect width="{WIDTH}" height="{height:g}" rx="12" fill="{PAPER}"/>',
        f'<rect x="{CORE}" y="16" width="{WIDTH - CORE - 16}" height="{bottom - 24:g}" rx="12" fill="#fffaf0"/>',
        *(_text(x, 42, words, INK, "bold") for x, words in ((CORE / 2, "core"), ((CORE + WIDTH) / 2 - 8, "wings"))),
    ]
    for (name, other), (start, end) in ends(architecture, at).items():
        (x0, y0), (x1, y1) = start, end
        bend = (y1 - y0) * 0.5
        kind, color = ("bad", BAD) if (name, other) in forbidden else ("line", LINE)
        sideways = other in WINGS and name not in WINGS
        first = ((x0 + x1) / 2, y0) if sideways else (x0, y0 + bend)
        parts.append(
            f'<path d="M{x0:g} {y0:g} C{first[0]:g} {first[1]:g} {x1:g} {y1 - bend:g} {x1:g} {y1:g}" fill="none" '
            f'stroke="{color}" stroke-width="1.6" marker-end="url(#{kind})"/>'
        )
    for name, (x, y) in at.items():
        parts.append(_box(x - BOX / 2, y, BOX, name, WING_FILL if name in WINGS else CORE_FILL))
    parts.append(
        _box(24, bottom + HEIGHT / 2, WIDTH - 48, ", ".join(architecture.base) + "   (for everything above)", BASE_FILL)
    )
    parts.append(_text(WIDTH / 2, height - 18, escape(summary(architecture)), INK, "normal"))
    return "\n".join([*parts, "</svg>", ""])


def _box(left: float, middle: float, width: float, name: str, fill: str) -> str:
    return (
        f'<rect x="{left:g}" y="{middle - HEIGHT / 2:g}" width="{width:g}" height="{HEIGHT}" rx="7" fill="{fill}" '
        f'stroke="{LINE}"/>' + _text(left + width / 2, middle + 5, escape(name), INK, "normal")
    )


def _text(x: float, y: float, words: str, color: str, weight: str) -> str:
    return f'<text x="{x:g}" y="{y:g}" text-anchor="middle" fill="{color}" font-weight="{weight}">{words}</text>'


def summary(architecture: Architecture) -> str:
    """Return one line of counts."""
    packages, arrows, forbidden = architecture.packages, architecture.arrows, architecture.forbidden
    wings = sum(name in WINGS for name in packages)
    return (
        f"{len(packages)} packages, {wings} of them wings; {len(arrows)} arrows, {len(needed(architecture))} drawn "
        f"(the others follow from them), {len(forbidden)} against the direction"
    )


# --- page ------------------------------------------------------------------------------------------------------------

PAGE = """<!-- Generated by tools/docs/architecture.py; do not edit. -->
# Architecture

![Packages of mixling and their imports](architecture.svg)

{summary}.
An arrow points to what is imported. Rows are layers: a package imports only rows below its own. The wings import the
core, and only the command line knows them. A red arrow breaks one of these rules; import-linter holds the same rules in
`make check`. What the words mean is in the [glossary](glossary.md), why things are as they are in the
[decision records](decisions/README.md).

| package | holds | imports |
|---|---|---|
{rows}
"""


def page(architecture: Architecture) -> str:
    """Return docs/architecture.md: the picture, and every package with what it holds and imports."""
    order = [name for row in layers(architecture) for name in row]
    core = [name for name in order if name not in WINGS]
    wings = [name for name in order if name in WINGS]
    rows = [
        f"| `{name}` | {architecture.summaries[name].replace('|', chr(92) + '|')} | "
        f"{', '.join(f'`{other}`' for other in sorted(architecture.imports[name])) or '-'} |"
        for name in (*core, *wings, *architecture.base)
    ]
    return PAGE.format(summary=summary(architecture), rows="\n".join(rows))


def files(architecture: Architecture) -> dict[str, str]:
    """Return the generated files by name."""
    return {"architecture.svg": picture(architecture), "architecture.md": page(architecture)}


if __name__ == "__main__":
    for name, content in files(read()).items():
        (ROOT / "docs" / name).write_text(content, "utf-8")
