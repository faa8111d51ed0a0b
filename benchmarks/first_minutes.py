"""The first minutes of a new user: a clone, the first command of the README, and then the others, in several terminals.

    python benchmarks/first_minutes.py                     # clones, makes .venv in the clone, and walks
    python benchmarks/first_minutes.py --python .venv/bin/python    # the same without clone and installation

In a terminal of 110x40 the walk is whole. In the others (80x24, a dumb terminal, one without colors, a pipe) trainings
have two epochs and `compare` is left out: there it is the output that counts. Measured are the seconds until the
command ends, its exit code, the lines before the first line of progress (an epoch or a bar), and lines that are wider
than the terminal. Packages come from pip's cache as far as it has them, and seconds are those of the machine as it is,
with whatever else it does.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))
from terminal import columns_of, run, screen_of

from mixling.provenance import provenance
from mixling.storage import write_json

ROOT = Path(__file__).resolve().parents[1]
WALK = (
    "mixling --help",
    "mixling sample messages",
    "mixling train messages.csv --text message --label topic -o model/",
    'mixling predict model/ "where is my parcel?"',
    'mixling explain model/ "where is my parcel?"',
    "mixling evaluate model/ messages_test.csv",
    "mixling compare messages.csv --test messages_test.csv --text message --label topic",
    "mixling train --help",
)
TERMINALS: dict[str, tuple[tuple[int, int] | None, dict[str, str]]] = {  # columns and rows, environment
    "110x40": ((110, 40), {"TERM": "xterm-256color"}),
    "80x24": ((80, 24), {"TERM": "xterm-256color"}),
    "dumb": ((80, 24), {"TERM": "dumb"}),
    "no color": ((80, 24), {"TERM": "xterm-256color", "NO_COLOR": "1"}),
    "pipe": (None, {"TERM": "xterm-256color"}),
}
PROGRESS = re.compile(r"^\s*\d+/\d+\s|[━╸╺]{3}|\d+%")


def first_commands() -> list[str]:
    """Return the commands of the README that begin with make."""
    return re.findall(r"^make \w+", (ROOT / "README.md").read_text("utf-8"), re.MULTILINE)


def surroundings(binaries: Path, changed: dict[str, str]) -> dict[str, str]:
    """Return the environment variables of a new terminal, in which an environment may be active."""
    left_out = {"VIRTUAL_ENV", "CONDA_PREFIX", "PYTHON", "NO_COLOR", "COLUMNS", "LINES", "OMP_NUM_THREADS"}
    kept = {name: value for name, value in os.environ.items() if name not in left_out}
    return {**kept, "PATH": os.pathsep.join([str(binaries), os.environ["PATH"]]), **changed}


def walk(place: str, folder: Path, binaries: Path, epochs: int | None) -> Iterator[dict[str, Any]]:
    """Type the commands in a terminal; yield what is measured of each."""
    size, changed = TERMINALS[place]
    for command in WALK:
        if epochs and " compare " in command:
            continue
        short = f" --epochs {epochs}" if epochs and " train messages" in command else ""
        yield measured(command + short, place, folder, surroundings(binaries, changed), size)


def measured(
    command: str, place: str, folder: Path, environment: dict[str, str], size: tuple[int, int] | None
) -> dict[str, Any]:
    """Run a command; return what is measured of it."""
    recorded = run(shlex.split(command), folder=folder, environment=environment, size=size)
    lines = screen_of(recorded).texts()
    while lines and not lines[-1]:
        del lines[-1]
    first = next((number for number, line in enumerate(lines) if PROGRESS.search(line)), None)
    return {
        "command": command,
        "terminal": place,
        "seconds": round(recorded.seconds, 1),
        "code": recorded.code,
        "lines": len(lines),
        "lines_before_progress": first if re.match("mixling (train messages|compare)", command) else None,
        "wide_lines": sum(columns_of(line) > size[0] for line in lines) if size else 0,
        "control_sequences": sum(text.count("\x1b") for _, text in recorded.pieces),
        "last": lines[-1] if lines and recorded.code else "",
    }


def table(rows: list[dict[str, Any]]) -> str:
    """Return the measurements as a table."""
    head = f"{'terminal':<9} {'seconds':>8} {'code':>4} {'lines':>5} {'before':>6} {'wide':>4}  command"
    return "\n".join([head, *(
        f"{row['terminal']:<9} {row['seconds']:>8.1f} {row['code']:>4} {row['lines']:>5} "
        f"{'' if row['lines_before_progress'] is None else row['lines_before_progress']:>6} {row['wide_lines']:>4}  "
        f"{row['command']}{'  ' + row['last'] if row['last'] else ''}"
        for row in rows
    )])  # fmt: skip


def main() -> None:
    """Write benchmarks/results/first_minutes.json, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--python", type=Path, help="of an environment with mixling; without it, one is made in a clone"
    )
    parser.add_argument("--terminals", nargs="*", default=list(TERMINALS), choices=TERMINALS)
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks" / "results" / "first_minutes.json")
    args = parser.parse_args()
    origin = provenance(seed=0)
    rows = []
    with tempfile.TemporaryDirectory() as temporary:
        binaries = (args.python.parent if args.python else Path(temporary) / "mixling" / ".venv" / "bin").absolute()
        if not args.python:
            subprocess.run(["git", "clone", "-q", str(ROOT), str(Path(temporary) / "mixling")], check=True)
            (size, changed), (command, _) = TERMINALS["110x40"], first_commands()
            environment = surroundings(binaries, changed)
            rows.append(measured(command, "110x40", Path(temporary) / "mixling", environment, size))
        for place in args.terminals:
            folder = Path(temporary) / place.replace(" ", "-")
            folder.mkdir()
            for row in walk(place, folder, binaries, None if place == "110x40" else 2):
                rows.append(row)
                print(table(rows).splitlines()[-1], flush=True)
    failed = [row["command"] for row in rows if row["code"]]
    write_json(args.out, {**origin, "load": [round(value, 1) for value in os.getloadavg()], "rows": rows})
    print(f"\n{table(rows)}\n\n{len(failed)} of {len(rows)} commands failed")
    print(json.dumps({"wide lines": sum(row["wide_lines"] for row in rows)}))


if __name__ == "__main__":
    main()
