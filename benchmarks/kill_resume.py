"""Kill a training at random moments, resume it, and compare its result with that of an uninterrupted run.

    OMP_NUM_THREADS=1 python benchmarks/kill_resume.py --kills 50 --out FILE.json
    OMP_NUM_THREADS=1 python benchmarks/kill_resume.py train --distributed 2 --kills 20 --out FILE.json
    OMP_NUM_THREADS=1 python benchmarks/kill_resume.py --forks --within .2 --kills 300 --epochs 60 --out FILE.json \\
        -- --set train.backend=native
    OMP_NUM_THREADS=1 python benchmarks/kill_resume.py pretrain CORPUS --out FILE.json -- --set train.steps=200

Everything goes through the command line: `mixling train ROWS -o DIR`, SIGKILL, `mixling train --resume -o DIR`,
SIGKILL, ... until the run ends; then a new run begins, until the kills are made. Without files `train` gets made-up
rows. Arguments after `--` are passed to the command. Several processes are started by torchrun, and all of them,
torchrun too, are killed together. Each kill is drawn from four kinds: at any moment of the process's life, at any
moment of training, while a temporary file is in the folder (during a save), or between the end of training and the end
of the run (the export). Just before a kill, a signal that faulthandler handles makes the main process print its stack:
this gives the `phase` of the result. With `--forks` each process is a copy of this one, which has imported PyTorch
before: most kills then are in the run, and none in the imports. Every file of a finished run's folder must have the
bytes of the uninterrupted run's, and no other file may be there. Exit code 1 if they differ.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import csv
import faulthandler
import importlib
import json
import os
import random
import runpy
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from mixling.provenance import provenance
from mixling.storage import LOCK_FILE, OWNER_FILE

# `python -m mixling`, with a handler in C that writes the stack on SIGUSR1; Python code never sees the signal. Each
# process leaves its number.
START = """
import faulthandler, os, pathlib, runpy, signal, sys
stack = pathlib.Path(sys.argv.pop(1) + "." + os.environ.get("RANK", "0"))
faulthandler.register(signal.SIGUSR1, file=stack.open("w"))
stack.with_suffix(".pid" + stack.suffix).write_text(str(os.getpid()))
runpy.run_module("mixling", run_name="__main__", alter_sys=True)
"""
# The first of these functions in the stack, from the innermost call outwards, gives the phase.
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
BEGUN, TRAINED = "metrics.jsonl", "config.json"  # written when training begins or resumes, and when it is done
# For the made-up rows: a model that is soon trained.
MADE_UP = (
    *("--text", "text", "--label", "label"),
    *("--set", "train.token_dropout=0.1", "--set", "model.head.dropout=0.1", "--set", "model.dim=16"),
    *("--set", "model.text.projection.num_features=256", "--set", "data.validation_fraction=0.4"),
)
# Before a run is forked.
IMPORTED = ("torch", "onnx", "onnxruntime", "matplotlib.pyplot", "mixling.cli.commands.train", "mixling.runs.training")
AIMS = ("any moment", "training", "save", "export")


class Fork:
    """A copy of this process, from its imports on, that runs the command: as `subprocess.Popen`."""

    def __init__(self, words: list[str], notes: Path) -> None:
        self.returncode: int | None = None
        self.pid = os.fork()
        if self.pid:
            return
        code = 1
        try:
            output = os.open(notes / "log.txt", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(output, 1)
            os.dup2(output, 2)
            faulthandler.register(signal.SIGUSR1, file=(notes / "stack.0").open("w"))
            (notes / "stack.pid.0").write_text(str(os.getpid()), "utf-8")
            sys.argv = ["mixling", *words]
            runpy.run_module("mixling", run_name="__main__", alter_sys=True)
        except SystemExit as error:
            code = error.code if isinstance(error.code, int) else int(error.code is not None)
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)

    def poll(self) -> int | None:
        return self._wait(os.WNOHANG)

    def wait(self) -> int:
        code = self._wait(0)
        assert code is not None
        return code

    def _wait(self, options: int) -> int | None:
        if self.returncode is None:
            pid, status = os.waitpid(self.pid, options)
            self.returncode = os.waitstatus_to_exitcode(status) if pid else None
        return self.returncode


@dataclass(frozen=True)
class Trial:
    """What is run: the command, its arguments, and in how many processes."""

    command: str
    arguments: list[str]
    distributed: int
    folder: Path  # of all that the trial writes
    forks: bool = False

    def begin(self, out: Path, *, again: bool = False) -> Attempt:
        """Start the run, or go on with it; a run that was killed before it was recorded starts from scratch."""
        if again and (out / "run.json").exists():
            arguments = ["--resume", "-o", str(out)]
        else:
            arguments = [*self.arguments, "-o", str(out), *(["--overwrite"] if again else [])]
        for path in self.folder.glob("stack.*"):
            path.unlink()
        stamps = {name: stamp(out / name) for name in (BEGUN, TRAINED)}
        if self.forks:
            return Attempt(Fork([self.command, *arguments], self.folder), out, self.folder, stamps)
        start = self.folder / "start.py"
        start.write_text(START, "utf-8")
        launch = [sys.executable]
        if self.distributed > 1:
            launch += ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={self.distributed}"]
        command = [*launch, str(start), str(self.folder / "stack"), self.command, *arguments]
        with (self.folder / "log.txt").open("wb") as output:
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT)
        return Attempt(process, out, self.folder, stamps)


@dataclass
class Attempt:
    """One start of the command, and the way it ended."""

    process: subprocess.Popen[bytes] | Fork
    folder: Path
    notes: Path  # the folder of stacks and log
    stamps: dict[str, int | None]  # of files as they were before
    begun: float = field(default_factory=time.monotonic)

    @property
    def log(self) -> str:
        return read(self.notes / "log.txt")

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
        return any(is_leftover(name) for name in os.listdir(self.folder)) if self.folder.exists() else False

    def kill(self) -> str:
        """Ask the main process for its stack, kill all, and return the phase."""
        stack, number = self.notes / "stack.0", read(self.notes / "stack.pid.0")
        if number:
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(number), signal.SIGUSR1)
        waited = time.monotonic()
        while self.running() and time.monotonic() - waited < 0.05 and not complete(read(stack)):
            pass
        family = self._family()
        for process in family:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        self.process.wait()
        psutil.wait_procs(family)
        found = phase(read(stack))
        # The handler cuts deep stacks, which after training are those of the export.
        return "exporting" if found == "starting" and self.written(TRAINED) else found

    def _family(self) -> list[psutil.Process]:
        """The process and those that it started; it is stopped, so that it starts no more."""
        try:
            first = psutil.Process(self.process.pid)
            first.suspend()
            return [first, *first.children(recursive=True)]
        except psutil.NoSuchProcess:
            return []


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", nargs="?", choices=("train", "pretrain"), default="train")
    parser.add_argument("files", nargs="*", help="what it trains on; without them train gets made-up rows")
    parser.add_argument("--distributed", type=int, default=1, help="started by torchrun")
    parser.add_argument("--forks", action="store_true", help="of this process, instead of new ones")
    parser.add_argument("--within", type=float, default=1.0, help="fraction of a part's time, for more kills of a run")
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--rows", type=int, default=600, help="rows of made-up text to train on")
    parser.add_argument("--epochs", type=int, default=12, help="of the made-up rows")
    parser.add_argument("--seed", type=int, default=0, help="of the rows and of the moments")
    parser.add_argument("--out", type=Path, required=True, help="the JSON file to write")
    given = sys.argv[1:]
    split = given.index("--") if "--" in given else len(given)
    options = parser.parse_args(given[:split])
    options.further = given[split + 1 :]
    if options.command == "pretrain" and not options.files:
        parser.error("pretrain needs a file of text")

    if options.forks:
        for name in IMPORTED:
            importlib.import_module(name)

    origin = provenance(seed=options.seed, packages=["safetensors", "onnx", "onnxruntime"])
    with tempfile.TemporaryDirectory() as folder:
        result = evaluate(Path(folder), options)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps({**origin, **result}, indent=2) + "\n", "utf-8")
    print({name: result[name] for name in ("kills", "phases", "leftover_files", "finished_runs", "differences")})
    sys.exit(1 if result["differences"] else 0)


def evaluate(folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    rng = random.Random(options.seed)
    arguments = [*options.files, "--set", "train.checkpoint_seconds=0.05", *options.further]
    if not options.files:
        write_rows(folder / "rows.csv", options.rows, rng)
        arguments = [str(folder / "rows.csv"), "--epochs", str(options.epochs), *MADE_UP, *arguments]
    trial = Trial(options.command, arguments, options.distributed, folder, options.forks)
    whole = folder / "whole"
    times = uninterrupted(trial.begin(whole))
    latest = {name: seconds * options.within for name, seconds in times.items()}
    wanted = files(whole)
    kills: list[dict[str, Any]] = []
    differences: list[str] = []
    finished = 0
    while len(kills) < options.kills:
        finished += 1
        victim = folder / f"run{finished}"
        attempt = trial.begin(victim)
        late = 0  # kills after training: a run is allowed two, else most kills would be there
        while True:
            kill = strike(attempt, rng, latest) if len(kills) < options.kills and late < 2 else None
            if kill is None and attempt.process.wait() == 0:
                break
            if kill is None:
                sys.exit(f"the run ended with code {attempt.process.returncode}:\n{attempt.log}")
            kills.append({"run": finished, **kill})
            late += attempt.written(TRAINED)
            print(kills[-1], flush=True)
            attempt = trial.begin(victim, again=True)
        found = [f"run {finished}: {difference}" for difference in compare(files(victim), wanted)]
        print(found or f"run {finished}: the {len(wanted)} files are the same", flush=True)
        differences += found
    return {
        "training": options.command,
        "distributed": options.distributed,
        "arguments": [argument.replace(str(folder), "DIR") for argument in arguments],
        "rows": None if options.files else options.rows,
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
    """Texts of made-up words, one of which gives away the label nine times in ten."""
    words = ["".join(rng.choices("abcdefghij", k=rng.randint(2, 7))) for _ in range(800)]
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["text", "label"])
        for _ in range(count):
            reported, label = rng.randrange(4), rng.randrange(4)
            text = [*rng.choices(words, k=rng.randint(3, 25)), words[reported]]
            rng.shuffle(text)
            writer.writerow([" ".join(text), f"label {reported if rng.random() < 0.9 else label}"])


def uninterrupted(attempt: Attempt) -> dict[str, float]:
    """Seconds that the parts of a run take."""
    attempt.wait_until(lambda: attempt.written(BEGUN))
    begun = attempt.age
    attempt.wait_until(lambda: attempt.written(TRAINED))
    trained = attempt.age
    if attempt.process.wait() != 0:
        sys.exit(f"the uninterrupted run ended with code {attempt.process.returncode}:\n{attempt.log}")
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
    names = os.listdir(attempt.folder) if attempt.folder.exists() else []
    left = sorted(name for name in names if is_leftover(name))
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
    return 'start.py", line' in stack or 'kill_resume.py", line' in stack or stack.endswith("  ...\n")


def compare(got: dict[str, bytes], wanted: dict[str, bytes]) -> list[str]:
    """What is missing, too much or different."""
    return [
        f"{name}: {'missing' if name not in got else 'too much' if name not in wanted else 'other bytes'}"
        for name in sorted(got.keys() | wanted.keys())
        if got.get(name) != wanted.get(name)
    ]


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


def is_leftover(name: str) -> bool:
    """Whether a file is what a save writes to, or a run begins with; not the lock of the folder."""
    return name.startswith(".") and name not in (LOCK_FILE, OWNER_FILE)


def stamp(path: Path) -> int | None:
    try:
        return path.stat().st_mtime_ns
    except FileNotFoundError:
        return None


def read(path: Path) -> str:
    return path.read_text("utf-8", "replace") if path.exists() else ""


if __name__ == "__main__":
    main()
