"""Kill a training at random moments, go on with --resume, and compare what it ends with to an uninterrupted run.

    OMP_NUM_THREADS=1 python benchmarks/kill_resume.py --kills 50 --out benchmarks/results/kill_resume.json

Everything goes through the command line: `mixling train ROWS -o DIR`, SIGKILL, `mixling train --resume -o DIR`,
SIGKILL, ... until the run ends; then a new run begins, until the kills are made. By turns drawn at random the kills
come at any moment of the process's life, at any moment of training, while a temporary file lies in the folder (inside a
save), or between the end of training and the end of the run (the export). Just before a kill the process is asked, by a
signal that only the interpreter's fault handler sees, where it stands: that is the `phase` of the result. Every file of
a finished run's folder must have the bytes of the uninterrupted run's, and no other file may be there. Exit code 1 if
they differ.
"""

from __future__ import annotations

import argparse
import collections
import csv
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mixling.cost.provenance import provenance

# `python -m mixling`, with a handler in C that writes the stack on SIGUSR1; Python code never sees the signal.
START = """
import faulthandler, runpy, signal, sys
faulthandler.register(signal.SIGUSR1, file=open(sys.argv.pop(1), "w"))
runpy.run_module("mixling", run_name="__main__", alter_sys=True)
"""
# The first that stands in the stack, from its inner end outwards, is the phase.
PHASES = (
    ("storage.py", "write_atomic", "saving"),
    ("checkpoint.py", "", "saving"),
    ("loop.py", "_evaluate", "evaluating"),
    ("loop.py", "_step", "training"),
    ("onnx.py", "", "exporting"),
    ("quantize.py", "", "exporting"),
    ("plots.py", "", "exporting"),
    ("folder.py", "", "exporting"),
    ("fit.py", "read_data", "reading"),
    ("encoder.py", "train_vocabulary", "reading"),
    ("vocabulary.py", "", "reading"),
    ("batches.py", "__init__", "reading"),
    ("fit.py", "fit", "preparing"),
)
BEGUN, TRAINED = "metrics.jsonl", "config.json"  # written when training begins, or goes on; and when it is done
AIMS = ("any moment", "training", "save", "export")


@dataclass
class Attempt:
    """One process, and the way it ended."""

    process: subprocess.Popen[bytes]
    folder: Path
    stack: Path
    log: Path
    stamps: dict[str, int | None]  # of files as they were before
    begun: float = field(default_factory=time.monotonic)

    @property
    def age(self) -> float:
        return time.monotonic() - self.begun

    def running(self) -> bool:
        return self.process.poll() is None

    def wait_until(self, condition: Callable[[], bool]) -> bool:
        """Whether the condition came while the process ran."""
        while self.running():
            if condition():
                return True
            time.sleep(0.0002)
        return False

    def written(self, name: str) -> bool:
        """Whether this process wrote the file."""
        return stamp(self.folder / name) != self.stamps[name]

    def saving(self) -> bool:
        return any(name.startswith(".") for name in os.listdir(self.folder)) if self.folder.exists() else False

    def kill(self) -> str:
        """Ask where the process stands, kill it, and return the phase."""
        self.process.send_signal(signal.SIGUSR1)
        waited = time.monotonic()
        while self.running() and time.monotonic() - waited < 0.05 and not complete(read(self.stack)):
            pass
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        found = phase(read(self.stack))
        # The handler cuts deep stacks, which after training are those of the export.
        return "exporting" if found == "starting" and self.written(TRAINED) else found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--rows", type=int, default=600, help="rows of made-up text to train on")
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--seed", type=int, default=0, help="of the rows and of the moments")
    parser.add_argument("--out", type=Path, required=True, help="the JSON file to write")
    options = parser.parse_args()

    origin = provenance(seed=options.seed, packages=["safetensors", "onnx", "onnxruntime"])
    with tempfile.TemporaryDirectory() as folder:
        result = measure(Path(folder), options)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps({**origin, **result}, indent=2) + "\n", "utf-8")
    print({name: result[name] for name in ("kills", "phases", "leftover_files", "finished_runs", "differences")})
    sys.exit(1 if result["differences"] else 0)


def measure(folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    rng = random.Random(options.seed)
    rows = folder / "rows.csv"
    write_rows(rows, options.rows, rng)
    whole = folder / "whole"
    times = uninterrupted(begin(rows, whole, options.epochs))
    wanted = files(whole)
    kills: list[dict[str, Any]] = []
    differences: list[str] = []
    finished = 0
    while len(kills) < options.kills:
        finished += 1
        victim = folder / f"run{finished}"
        attempt = begin(rows, victim, options.epochs)
        late = 0  # kills after training: a run is allowed two, else most kills would be there
        while True:
            kill = strike(attempt, rng, times) if len(kills) < options.kills and late < 2 else None
            if kill is None and attempt.process.wait() == 0:
                break
            if kill is None:
                sys.exit(f"the run ended with code {attempt.process.returncode}:\n{read(attempt.log)}")
            kills.append({"run": finished, **kill})
            late += attempt.written(TRAINED)
            print(kills[-1], flush=True)
            attempt = begin(rows, victim, options.epochs, again=True)
        found = [f"run {finished}: {difference}" for difference in compare(files(victim), wanted)]
        print(found or f"run {finished}: the {len(wanted)} files are the same", flush=True)
        differences += found
    return {
        "rows": options.rows,
        "uninterrupted_seconds": {name: round(seconds, 2) for name, seconds in times.items()},
        "kills": len(kills),
        "phases": dict(collections.Counter(kill["phase"] for kill in kills).most_common()),
        "leftover_files": sum(bool(kill["leftover"]) for kill in kills),
        "finished_runs": finished,
        "compared_files": sorted(wanted),
        "differences": differences,
        "each": kills,
    }


def write_rows(path: Path, count: int, rng: random.Random) -> None:
    """Texts of made-up words, one of which tells the label nine times in ten."""
    words = ["".join(rng.choices("abcdefghij", k=rng.randint(2, 7))) for _ in range(800)]
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["text", "label"])
        for _ in range(count):
            told, label = rng.randrange(4), rng.randrange(4)
            text = [*rng.choices(words, k=rng.randint(3, 25)), words[told]]
            rng.shuffle(text)
            writer.writerow([" ".join(text), f"label {told if rng.random() < 0.9 else label}"])


def begin(rows: Path, folder: Path, epochs: int, *, again: bool = False) -> Attempt:
    """Start the run, or go on with it; a run that was killed before it was recorded starts from scratch."""
    if again and (folder / "run.json").exists():
        arguments = ["--resume", "-o", str(folder)]
    else:
        settings = {
            "train.checkpoint_seconds": 0.05,
            "train.word_dropout": 0.1,
            "model.head.dropout": 0.1,
            "model.dim": 16,
            "model.text.projection.num_features": 256,
            "data.dev_fraction": 0.4,
        }
        arguments = [str(rows), "--text", "text", "--label", "label", "-o", str(folder), "--epochs", str(epochs)]
        arguments += [part for key, value in settings.items() for part in ("--set", f"{key}={value}")]
        arguments += ["--overwrite"] if again else []
    stack, log = rows.parent / "stack.txt", rows.parent / "log.txt"
    stack.unlink(missing_ok=True)
    stamps = {name: stamp(folder / name) for name in (BEGUN, TRAINED)}
    with log.open("wb") as output:
        command = [sys.executable, "-c", START, str(stack), "train", *arguments]
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT)
    return Attempt(process, folder, stack, log, stamps)


def uninterrupted(attempt: Attempt) -> dict[str, float]:
    """Seconds that the parts of a run take."""
    attempt.wait_until(lambda: attempt.written(BEGUN))
    begun = attempt.age
    attempt.wait_until(lambda: attempt.written(TRAINED))
    trained = attempt.age
    if attempt.process.wait() != 0:
        sys.exit(f"the uninterrupted run ended with code {attempt.process.returncode}:\n{read(attempt.log)}")
    return {"start": begun, "training": trained - begun, "export": attempt.age - trained, "whole": attempt.age}


def strike(attempt: Attempt, rng: random.Random, times: dict[str, float]) -> dict[str, Any] | None:
    """Kill the process at a moment drawn by `rng`; None if it ended before."""
    aim = rng.choice(AIMS)
    if aim == "any moment":
        moment = rng.uniform(0, times["whole"])
        struck = attempt.wait_until(lambda: attempt.age >= moment)
    elif aim == "save":
        struck = attempt.wait_until(lambda: attempt.written(BEGUN))
        moment = attempt.age + rng.uniform(0, times["training"])  # saves are many: one at a random distance
        struck = struck and attempt.wait_until(lambda: attempt.age >= moment and attempt.saving())
    else:
        mark, length = (BEGUN, times["training"]) if aim == "training" else (TRAINED, times["export"])
        struck = attempt.wait_until(lambda: attempt.written(mark))
        moment = attempt.age + rng.uniform(0, length)
        struck = struck and attempt.wait_until(lambda: attempt.age >= moment)
    if not struck:
        return None
    age = attempt.age
    where = attempt.kill()
    # SIGUSR1 kills an interpreter that is too young to have its handler; any other code is an end of its own.
    if attempt.process.returncode not in (-signal.SIGKILL, -signal.SIGUSR1):
        return None
    left = sorted(path.name for path in attempt.folder.glob(".*")) if attempt.folder.exists() else []
    return {"aim": aim, "seconds": round(age, 3), "phase": where, "leftover": left}


def phase(stack: str) -> str:
    """Where the main thread stood."""
    main_thread = stack.rpartition("(most recent call first):")[2].splitlines()
    for line in main_thread:
        for file, function, name in PHASES:
            if f'{file}"' in line and line.endswith(f" in {function}" if function else ""):
                return name
    return "starting"


def complete(stack: str) -> bool:
    """Whether the main thread, the last that is written, is written to its outermost frame."""
    return '"<string>", line' in stack or stack.endswith("  ...\n")


def compare(got: dict[str, bytes], wanted: dict[str, bytes]) -> list[str]:
    """What is missing, too much or different."""
    return [
        f"{name}: {'missing' if name not in got else 'too much' if name not in wanted else 'other bytes'}"
        for name in sorted(got.keys() | wanted.keys())
        if got.get(name) != wanted.get(name)
    ]


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def stamp(path: Path) -> int | None:
    try:
        return path.stat().st_mtime_ns
    except FileNotFoundError:
        return None


def read(path: Path) -> str:
    return path.read_text("utf-8", "replace") if path.exists() else ""


if __name__ == "__main__":
    main()
