"""The recording of the README: commands on the sample data, run in a pseudo-terminal, as a picture that plays.

    python benchmarks/recording.py    # writes docs/pictures/recording.svg, and the figures of README.md's console block

All that is shown was printed by the commands, in their colors. Lines appear in the order in which they were printed;
long waits are shortened, and the line below them states the processor time that the commands took, and on what. The
block of README.md gets its figures from the same model.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from html import escape
from itertools import groupby
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage

sys.path.insert(0, str(Path(__file__).resolve().parent))
from overview import PICTURES
from terminal import Screen, Style, run, screen_of

from mixling.cli.output import format_seconds
from mixling.provenance import provenance

COMMANDS = (
    "mixling sample messages",
    "mixling messages.csv",
    'mixling explain messages-model "the parcel was left with a neighbour I do not know"',
)
README = Path(__file__).resolve().parents[1] / "README.md"
COLUMNS = 100
FONT = "ui-monospace, SFMono-Regular, Menlo, Consolas, DejaVu Sans Mono, monospace"
CHARACTER, LINE, TOP, LEFT = 7.25, 17, 30, 16
TEXT, QUIET, PAGE, PROMPT = "#e6edf3", "#8b949e", "#0d1117", "#3fb950"
LONGEST_WAIT, BETWEEN, HOLD = 0.35, 0.6, 6.0  # seconds of the picture: between lines, between commands, at the end


def record(folder: Path) -> list[tuple[float, Screen]]:
    """Run the commands; return when each begins in the picture, with its screen."""
    place = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    environment = {**os.environ, "PATH": place, "TERM": "xterm-256color", "COLORTERM": "truecolor"}
    for name in ("NO_COLOR", "COLUMNS", "LINES"):
        environment.pop(name, None)
    begin, shown = 0.3, []
    for command in COMMANDS:
        recorded = run(shlex.split(command), folder=folder, environment=environment, size=(COLUMNS, 40))
        if recorded.code:
            raise SystemExit(f"{command}: exit code {recorded.code}\n" + "\n".join(screen_of(recorded).texts()))
        screen = screen_of(recorded)
        shown.append((begin, screen))
        begin = _times(begin, screen)[-1] + BETWEEN
    return shown


def with_figures(readme: str, printed: list[str]) -> str:
    """Return the README whose console block has the figures that were printed."""
    found = {_masked(line): line for line in reversed(printed)}
    block = re.search(r"(?<=```console\n).*?(?=```)", readme, re.DOTALL)
    assert block is not None
    lines = [line if line.startswith("$") else found.get(_masked(line), line) for line in block[0].splitlines()]
    return readme[: block.start()] + "\n".join([*lines, ""]) + readme[block.end() :]


def _masked(line: str) -> str:
    return " ".join(re.sub(r"[+-]?\d[\d.,]*", "#", line).split())


def _times(begin: float, screen: Screen) -> list[float]:
    """Return when each line of a screen appears in the picture."""
    times, before = [begin + BETWEEN / 2], 0.0
    for seconds in screen.changed:
        times.append(times[-1] + min(max(seconds - before, 0.0), LONGEST_WAIT))
        before = max(before, seconds)
    return times[1:]


def picture(shown: list[tuple[float, Screen]], about: str) -> str:
    """Return the picture as SVG."""
    lines: list[tuple[float, list[tuple[str, Style]]]] = []
    for command, (begin, screen) in zip(COMMANDS, shown, strict=True):
        typed = [("$", Style(color=PROMPT)), (" ", Style()), *((sign, Style(bold=True)) for sign in command)]
        lines.append((begin, typed))
        for seconds, line in zip(_times(begin, screen), screen.lines, strict=True):  # a terminal breaks long lines
            lines.extend((seconds, line[at : at + COLUMNS]) for at in range(0, max(len(line), 1), COLUMNS))
        while not any(sign.strip() for sign, _ in lines[-1][1]):
            del lines[-1]
    lines.append((lines[-1][0], []))
    height, width = TOP + LINE * (len(lines) + 1) + 8, round(2 * LEFT + CHARACTER * COLUMNS)
    whole = lines[-1][0] + HOLD
    motion = f"opacity:0;animation:{whole:.1f}s step-end infinite"
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="{FONT}" font-size="12">',
        "<title>A terminal: mixling trains on sample data, measures, answers and explains</title>",
        f"<style>text{{white-space:pre}}@media (prefers-reduced-motion:no-preference){{.l{{{motion}}}}}</style>",
        f'<rect width="{width}" height="{height}" rx="8" fill="{PAGE}"/>',
        *(f'<circle cx="{LEFT + 4 + 16 * dot}" cy="14" r="5" fill="#30363d"/>' for dot in range(3)),
        f'<g fill="{TEXT}">',
        *_drawn(lines, whole),
        f'<text x="{LEFT}" y="{height - 12}" fill="{QUIET}">{escape(about)}</text>',
    ]
    return "\n".join([*out, "</g></svg>", ""])


def _drawn(lines: list[tuple[float, list[tuple[str, Style]]]], whole: float) -> Iterator[str]:
    for number, (seconds, line) in enumerate(lines):
        spans, behind, column = [], [], 0
        for style, group in groupby(line, key=lambda pair: pair[1]):
            text = "".join(sign for sign, _ in group)
            if style.behind:
                place = f'x="{LEFT + column * CHARACTER:.1f}" y="{TOP + LINE * (number + 1) - 13}"'
                size = f'width="{len(text) * CHARACTER:.1f}" height="{LINE}"'
                behind.append(f'<rect {place} {size} fill="{style.behind}"/>')
            if text.strip():
                look = f' fill="{style.color or QUIET}"' if style.color or style.dim else ""
                look += ' font-weight="700"' if style.bold else ""
                x = round(LEFT + column * CHARACTER, 1)
                length = round(len(text.rstrip()) * CHARACTER, 1)
                spans.append(f'<tspan x="{x}" textLength="{length}"{look}>{escape(text.rstrip())}</tspan>')
            column += len(text)
        if spans:
            name, y = f"k{number}", TOP + LINE * (number + 1)
            begin = 100 * seconds / whole
            yield f"<style>@keyframes {name}{{0%{{opacity:0}}{begin:.2f}%,to{{opacity:1}}}}</style>"
            text = f'<text y="{y}">{"".join(spans)}</text>'
            yield f'<g class="l" style="animation-name:{name}">{"".join(behind)}{text}</g>'


def main() -> None:
    """Record, and write the picture."""
    with tempfile.TemporaryDirectory() as folder:
        shown = record(Path(folder))
        printed = [line for _, screen in shown for line in screen.texts()]
        for command in ("mixling evaluate messages-model messages_test.csv", COMMANDS[-1]):
            found = subprocess.run(shlex.split(command), cwd=folder, capture_output=True, text=True, check=True)
            printed = [*found.stdout.splitlines(), *printed]
    made = provenance(seed=0)
    used = sum(getrusage(RUSAGE_CHILDREN)[:2])
    machine = f"{made['hardware']['cpu']}, commit {made['commit'][:7]}"
    about = f"{format_seconds(used)} of processor time in all, waits cut; {machine}"
    (PICTURES / "recording.svg").write_text(picture(shown, about), "utf-8")
    README.write_text(with_figures(README.read_text("utf-8"), printed), "utf-8")
    print(about)


if __name__ == "__main__":
    main()
