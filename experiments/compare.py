"""Compare results files with a tolerance: what somebody else's run comes to beside the committed one.

    python experiments/compare.py results/pnlp_mixer.json
    python experiments/compare.py results/pnlp_mixer.json --with HEAD~20:experiments/results/pnlp_mixer.json
    python experiments/compare.py mine.json --with experiments/results/pnlp_mixer.json --tolerance 0.02

Numbers at the same place of both files are compared: fractions (from 0 to 1) by their difference, all others by their
ratio. Provenance, seconds and trials are left out: digits depend on the processor, seeds on the number of threads. Exit
status 1 if a number is further away than the tolerance, or a place of one file is missing in the other.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

LEFT_OUT = {"provenance", "commit", "date", "hardware", "seconds", "milliseconds", "trials", "versions", "low", "high"}
ROOT = Path(__file__).resolve().parents[1]


def numbers(value: Any, place: str = "") -> Iterator[tuple[str, float]]:
    """The numbers of a results file with their places, such as `table 1.MinHash.mean.span_f1`."""
    if isinstance(value, bool | str) or value is None:
        return
    if isinstance(value, int | float):
        yield place, value
        return
    parts = value.items() if isinstance(value, dict) else enumerate(value)
    for key, part in parts:
        if key not in LEFT_OUT:
            yield from numbers(part, f"{place}.{key}".lstrip("."))


def distance(mine: float, theirs: float) -> float:
    """The difference of fractions, or how far the ratio is from 1."""
    if max(abs(mine), abs(theirs)) <= 1:
        return abs(mine - theirs)
    return abs(mine - theirs) / max(abs(mine), abs(theirs))


def read(name: str) -> Any:
    """The contents of a file, or of REVISION:FILE in git."""
    if Path(name).exists():
        return json.loads(Path(name).read_text("utf-8"))
    shown = subprocess.run(["git", "-C", ROOT, "show", name], capture_output=True, text=True, check=False)
    if shown.returncode:
        sys.exit(f"error: {name}: no such file, and no revision of git: {shown.stderr.strip()}")
    return json.loads(shown.stdout)


def main() -> None:
    """Print the places that are further apart than the tolerance."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results")
    parser.add_argument("--with", dest="other", help="default: the committed file of the same name")
    parser.add_argument("--tolerance", type=float, default=0.02, help="of fractions and ratios; default: %(default)s")
    options = parser.parse_args()
    other = options.other or f"HEAD:experiments/results/{Path(options.results).name}"
    mine, theirs = (dict(numbers(read(name))) for name in (options.results, other))
    both = mine.keys() & theirs.keys()
    apart = {place: distance(mine[place], theirs[place]) for place in both}
    far = [place for place in mine if place in both and apart[place] > options.tolerance]
    for place in far:
        print(f"{place}: {mine[place]:g} and {theirs[place]:g}")
    missing = mine.keys() ^ theirs.keys()
    for place in sorted(missing):
        print(f"{place}: only in {options.results if place in mine else other}")
    worst = max(apart.values(), default=0.0)
    print(f"{len(both):,} numbers, {len(far)} further apart than {options.tolerance:g} (most: {worst:.3g})")
    sys.exit(bool(far or missing))


if __name__ == "__main__":
    main()
