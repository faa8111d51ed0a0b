"""How long a first answer on the command line takes from the start of the process, and how much memory.

Every round runs each command once, in an order that is drawn anew. `import numpy` and `import onnxruntime` are the
limits: no answer can come sooner. Processor seconds stand beside those of the clock, because a machine that does other
work adds its waiting to the latter.

    python benchmarks/start.py --without-torch /path/to/base/environment/bin/python
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from mixling.provenance import provenance
from mixling.storage import write_json

HERE = Path(__file__).resolve().parent
GOLDEN = HERE.parent / "tests" / "golden" / "model-v1.onnx"


def main() -> None:
    """Write benchmarks/results/start.json."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--without-torch", metavar="PYTHON", help="interpreter of an environment without torch")
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=HERE / "results" / "start.json")
    args = parser.parse_args()
    origin = provenance(seed=args.seed, packages=("onnxruntime", "tokenizers", "pydantic", "typer"))
    pythons = {"with torch installed": sys.executable}
    if args.without_torch:
        pythons["base install"] = args.without_torch
    with tempfile.TemporaryDirectory() as folder:
        base = trained_base(Path(folder), args.seed)
        commands = {
            "python -c pass": ["-c", "pass"],
            "import numpy": ["-c", "import numpy"],
            "import onnxruntime": ["-c", "import onnxruntime"],
            "mixling --help": ["-m", "mixling", "--help"],
            "mixling predict, golden model": ["-m", "mixling", "predict", str(GOLDEN), "a text"],
            "mixling predict, mixling-base": ["-m", "mixling", "predict", str(base), "a text"],
        }
        sizes = {"golden model": GOLDEN.stat().st_size, "mixling-base": (base / "model.onnx").stat().st_size}
        results = {name: evaluate(python, commands, args.rounds, args.seed) for name, python in pythons.items()}
    write_json(args.out, {**origin, "rounds": args.rounds, "file_bytes": sizes, "results": results})
    print(json.dumps(results, indent=2))


def trained_base(folder: Path, seed: int) -> Path:
    """A run folder of mixling-base, trained for one epoch on texts of made-up words."""
    chance = random.Random(seed)
    words = ["".join(chance.choices("aeioulnrst", k=chance.randint(2, 9))) for _ in range(5000)]
    with (folder / "rows.csv").open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["text", "label"])
        for _ in range(1500):
            table.writerow([" ".join(chance.choices(words, k=12)), chance.choice(["good", "bad"])])
    options = ["--model", "mixling-base", "--epochs", "1", "--test-fraction", "0", "-o", str(folder / "run")]
    command = [sys.executable, "-m", "mixling", "train", str(folder / "rows.csv"), *options]
    subprocess.run(command, check=True, capture_output=True)
    return folder / "run"


def evaluate(python: str, commands: dict[str, list[str]], rounds: int, seed: int) -> dict[str, dict[str, Any]]:
    """Medians of each command over the rounds, after one that is not counted."""
    random.seed(seed)
    runs: dict[str, list[tuple[float, float, float]]] = {name: [] for name in commands}
    for number in range(rounds + 1):
        for name in random.sample(list(commands), len(commands)):
            spent = run_once([python, *commands[name]])
            if number:
                runs[name].append(spent)
    return {name: summary(spent) for name, spent in runs.items()}


def run_once(command: list[str]) -> tuple[float, float, float]:
    """Seconds of the clock, seconds of the processor, and MB at the most, of one process."""
    begin = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - begin
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{command}: exit code {process.returncode}")
    return seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024 / 1e6


def summary(runs: list[tuple[float, float, float]]) -> dict[str, Any]:
    """Medians, and the least of the seconds: what other work on the machine disturbed least."""
    clock, processor, memory = zip(*runs, strict=True)
    return {
        "seconds": round(statistics.median(clock), 3),
        "least_seconds": round(min(clock), 3),
        "processor_seconds": round(statistics.median(processor), 3),
        "least_processor_seconds": round(min(processor), 3),
        "mb": round(statistics.median(memory), 1),
    }


if __name__ == "__main__":
    main()
