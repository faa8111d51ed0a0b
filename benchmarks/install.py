"""What an installation without extras brings: packages, bytes, seconds, and the time until it trains.

The wheel is built from the tree. pip installs it into one fresh environment, which fills pip's cache, and then into
another, which is measured: its packages but for pip and setuptools, the bytes of their files with the bytecode that pip
compiles, and the seconds of the command. Then `mixling train` is started on the messages that come with mixling, as
often as the rounds, and ends at its first step: the time from the start of the process until there.

    python benchmarks/install.py                  # or --extras plots,onnx
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import venv
from pathlib import Path
from typing import Any

from mixling.provenance import provenance
from mixling.storage import write_json

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
TOOLS = ("pip", "setuptools")
# Runs in the environment: the packages and the bytes of their files.
LISTED = """
import importlib.metadata, json
found = {}
for one in importlib.metadata.distributions():
    paths = [path.locate() for path in one.files or ()]
    found[one.name] = [one.version, sum(path.stat().st_size for path in paths if path.is_file())]
print(json.dumps(found))
"""
# Runs in the environment: trains, and prints the time of the first step, which is not made.
FIRST_STEP = """
import os, sys, time
from mixling.training.backends import native_backend
def step(self, *arguments, **options):
    print(time.time(), flush=True)
    os._exit(0)
native_backend.NativeBackend.step = step
from mixling.cli.main import run
run()
"""


def main() -> None:
    """Write benchmarks/results/install.json."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--extras", default="", help="of pyproject.toml, with commas between them")
    parser.add_argument("--rounds", type=int, default=5, help="trainings that are begun")
    parser.add_argument("--out", type=Path, default=HERE / "results" / "install.json")
    args = parser.parse_args()
    origin = provenance()
    with tempfile.TemporaryDirectory() as folder:
        wheel = built(Path(folder))
        name = f"{wheel}[{args.extras}]" if args.extras else str(wheel)
        install(Path(folder, "warm"), name)
        seconds, processor_seconds = install(Path(folder, "measured"), name)
        python = Path(folder, "measured", "bin", "python")
        listed = subprocess.run([python, "-c", LISTED], check=True, capture_output=True, text=True).stdout
        packages = {name: of for name, of in json.loads(listed).items() if name not in TOOLS}
        begun = [first_step(python, Path(folder, f"run-{number}")) for number in range(args.rounds)]
        results: dict[str, Any] = {
            "extras": args.extras,
            "wheel_bytes": wheel.stat().st_size,
            "packages": len(packages),
            "bytes": sum(size for _, size in packages.values()),
            "install_seconds": round(seconds, 1),
            "install_processor_seconds": round(processor_seconds, 1),
            "first_step_seconds": [round(one, 2) for one in begun],
            "first_step_seconds_median": round(statistics.median(begun), 2),
            "load": [round(one, 1) for one in os.getloadavg()],
            "of_packages": {name: packages[name] for name in sorted(packages, key=str.lower)},
        }
    write_json(args.out, {**origin, **results})
    print(json.dumps(results, indent=2))


def built(folder: Path) -> Path:
    """Return a wheel of the tree."""
    command = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", folder, ROOT]
    subprocess.run(command, check=True)
    return next(folder.glob("*.whl"))


def install(folder: Path, name: str) -> tuple[float, float]:
    """Install into a fresh environment; return the seconds of the clock and of the processor."""
    venv.create(folder, with_pip=True)
    command = [folder / "bin" / "python", "-m", "pip", "install", "-q", "--disable-pip-version-check"]
    before = os.times()
    begin = time.perf_counter()
    subprocess.run([*command, "-c", ROOT / "constraints.txt", name], check=True)
    after = os.times()
    spent = after.children_user + after.children_system - before.children_user - before.children_system
    return time.perf_counter() - begin, spent


def first_step(python: Path, out: Path) -> float:
    """Return the seconds from the start of a training until its first step."""
    rows = ROOT / "src" / "mixling" / "samples" / "messages.csv"
    command = [python, "-c", FIRST_STEP, "train", rows, "--text", "message", "--label", "topic", "-o", out]
    begin = time.time()
    done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=out.parent)
    return float(done.stdout.split()[-1]) - begin


if __name__ == "__main__":
    main()
