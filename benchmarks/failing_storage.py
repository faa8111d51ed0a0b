"""Each call that reads or changes a folder fails, one in each trial: what is left, and what the command does then.

    OMP_NUM_THREADS=1 python benchmarks/failing_storage.py --out benchmarks/results/failing_storage.json

A small training into a new folder, one that replaces a finished run, one that is resumed, an export over an older file
and a prediction into a folder are repeated once for each call that opens, writes, flushes, renames, links, makes or
removes something below that folder, and that call fails: alone, or with all that would write after it, as on a full
disk. The command must end with exit code 2 and one line, without a traceback, or have done all of its work in spite of
it. The folder must hold the old state or the new one, or an unfinished run; the same command, or --resume where a run
is unfinished, must then end with the files of an undisturbed run.

Trials are forked from one process. Path names are seen by an audit hook, as Python raises its
events before the system is asked; files that are opened for writing get a raw file of ours, so that a write fails where
the system's would, when a buffer is flushed. What libraries in C or Rust write by themselves would not be seen: mixling
has them make bytes, and writes these itself. Exit code 1 if anything is not as it must be.
"""

from __future__ import annotations

import _io
import argparse
import builtins
import collections
import errno
import functools
import io
import json
import os
import random
import shutil
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from interruptions import Ended, differing, digests, diverge, trial, warm_up, write_data

from mixling import UserError
from mixling.artifacts import read_folder, unfinished_run
from mixling.provenance import provenance

NUMBERS = (errno.ENOSPC, errno.EIO, errno.EACCES)
SMALLEST = (
    *("--model", "mixling-tiny", "--set", "model.dim=16", "--set", "train.batch_size=16"),
    *("--set", "model.text.projection.num_features=256", "--set", "train.checkpoint_seconds=1e-6"),
)
# Events of Python's audit, with the places of the paths and of the folder's descriptor in their arguments.
EVENTS = {
    "os.rename": ((0, 2), (1, 3)),
    "os.link": ((1, 3),),
    "os.remove": ((0, 1),),
    "os.mkdir": ((0, 2),),
    "os.rmdir": ((0, 1),),
    "os.chmod": ((0, 2),),
}
REMOVES = ("os.remove", "os.rmdir")  # a full disk does not keep one from it
LEFT = ("checkpoint.", "_progress/")  # what a finished run or prediction may still have, if it cannot be removed
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT


@dataclass
class Failure:
    """Fails a call below a folder.

    Attributes:
        at: the number of the call, from 1; 0: none fails, and all are counted.
        number: the error that is raised.
        lasting: whether all calls that need room on the disk fail after it.
    """

    folder: Path
    at: int = 0
    number: int = errno.ENOSPC
    lasting: bool = False
    calls: list[str] = field(default_factory=list)
    report: Path | None = None

    def install(self) -> None:
        """See all calls of this process from now on; there is no way back, as audit hooks stay."""
        self._root = os.path.realpath(self.folder)
        sys.addaudithook(self._heard)
        self._fsync, self._open = os.fsync, io.open
        os.fsync = self._synced
        for module in (builtins, io, _io):
            module.open = self._opened  # type: ignore[attr-defined]

    def _below(self, path: Any, folder: Any = -1) -> bool:
        """Whether a path, beginning at a folder's descriptor, is the folder or below it."""
        if isinstance(path, int):
            name = os.readlink(f"/proc/self/fd/{path}")
        else:
            name = os.fsdecode(path)
            if isinstance(folder, int) and folder >= 0:
                name = os.path.join(os.readlink(f"/proc/self/fd/{folder}"), name)
        name = os.path.abspath(name)
        return name == self._root or name.startswith(self._root + "/")

    def _heard(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open":
            path, mode, flags = arguments
            if path is not None and not isinstance(path, int) and self._below(path):
                writes = bool(flags & WRITING) if mode is None else any(sign in mode for sign in "wax+")
                self._called("open to write" if writes else "open to read", path, frees=not writes)
        elif event in EVENTS and any(
            self._below(arguments[path], arguments[at] if at < len(arguments) else -1) for path, at in EVENTS[event]
        ):
            self._called(event.removeprefix("os."), arguments[0], frees=event in REMOVES)

    def _synced(self, descriptor: int) -> None:
        if self._below(descriptor):
            self._called("fsync", None)
        self._fsync(descriptor)

    def _opened(self, file: Any, mode: str = "r", buffering: int = -1, encoding: Any = None, *rest: Any,
                opener: Any = None, **options: Any) -> Any:  # fmt: skip
        if isinstance(file, int) or not self._below(file) or not any(sign in mode for sign in "wax+"):
            return self._open(file, mode, buffering, encoding, *rest, opener=opener, **options)
        raw = _Raw(self, file, mode.replace("b", "").replace("t", ""), opener=opener)
        buffered: Any = raw
        if buffering:
            buffered = io.BufferedRandom(raw) if "+" in mode else io.BufferedWriter(raw)  # type: ignore[type-var]
        return buffered if "b" in mode else io.TextIOWrapper(buffered, encoding, *rest, **options)

    def _called(self, name: str, path: Any, *, frees: bool = False) -> None:
        self.calls.append(name)
        count = len(self.calls)
        if self.report is not None:
            descriptor = os.open(self.report, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
            os.write(descriptor, f"{name}\n".encode())
            os.close(descriptor)
        if self.at and (count == self.at or (self.lasting and count > self.at and not frees)):
            where = () if path is None else (os.fsdecode(path),)
            raise OSError(self.number, os.strerror(self.number), *where)


class _Raw(io.FileIO):
    """A file whose writes may fail."""

    def __init__(self, failure: Failure, file: Any, mode: str, **options: Any) -> None:
        super().__init__(file, mode, **options)
        self._failure = failure

    def write(self, data: Any, /) -> int:
        self._failure._called("write", None)
        return super().write(data)


# ---- commands


@dataclass(frozen=True)
class Command:
    """A command that changes a folder.

    Attributes:
        arguments: FOLDER stands for the folder.
        before: a folder with what is there before it; None: it is new.
        states: the files of the old state and of the new one, by name.
        again: what is to end in the new state after a failure, given the folder.
    """

    arguments: tuple[str, ...]
    before: Path | None
    states: Mapping[str, dict[str, str]]
    again: Callable[[Path], tuple[str, ...]]

    def at(self, folder: Path) -> list[str]:
        return [item.replace("FOLDER", str(folder)) for item in self.arguments]

    def prepare(self, folder: Path) -> None:
        shutil.rmtree(folder, ignore_errors=True)
        if self.before is not None:
            shutil.copytree(self.before, folder)


def make_commands(folder: Path) -> dict[str, Command]:
    """Return the commands, whose data and folders are made in a folder."""
    write_data(folder, random.Random(0))
    rows = str(folder / "rows.csv")
    train = ("train", rows, "--epochs", "1", "--test-fraction", "0", *SMALLEST, "-o", "FOLDER")
    old, new, unfinished = folder / "old", folder / "new", folder / "unfinished"
    _must([*train[:-1], str(old), "--seed", "1"])
    _must([*train[:-1], str(new), "--seed", "2"])
    stopped = trial([*train[:-1], str(unfinished), "--seed", "2"], prepare=functools.partial(diverge, 5))
    if stopped.code != 2 or (run := unfinished_run(unfinished)) is None or not run.step:
        sys.exit(f"the run to resume has no checkpoint:\n{stopped.log}")
    exported = folder / "exported"
    exported.mkdir()
    (exported / "model.onnx").write_bytes(b"an older model")
    predict = ("predict", str(new), rows, "-o", "FOLDER/", "--workers", "1")
    export = ("export", str(new), "-o", "FOLDER/model.onnx")

    def run_again(location: Path) -> tuple[str, ...]:
        if _unfinished(location):
            return ("train", "--resume", "-o", "FOLDER")
        return (*train, "--seed", "2", *["--overwrite"] * (location / "run.json").exists())

    def predict_again(location: Path) -> tuple[str, ...]:
        return (*predict, *["--resume"] * location.exists())

    runs = {"old": digests(old), "new": digests(new)}
    files = {"old": digests(exported), "new": {"model.onnx": runs["new"]["model.onnx"]}}
    _must([item.replace("FOLDER", str(folder / "predicted")) for item in predict])
    predicted = digests(folder / "predicted")
    return {
        "train": Command((*train, "--seed", "2"), None, {"new": runs["new"]}, run_again),
        "overwrite": Command((*train, "--seed", "2", "--overwrite"), old, runs, run_again),
        "resume": Command(("train", "--resume", "-o", "FOLDER"), unfinished, {"new": runs["new"]}, run_again),
        "export": Command(export, exported, files, lambda _: export),
        "bulk": Command(predict, None, {"new": predicted}, predict_again),
    }


def _must(arguments: list[str]) -> None:
    if (done := trial(arguments)).code:
        sys.exit(f"{' '.join(arguments)} failed:\n{done.log}")


def _unfinished(folder: Path) -> bool:
    try:
        return unfinished_run(folder) is not None
    except UserError:
        return False


def count_calls(command: Command, folder: Path) -> list[str]:
    """Return the calls of the command below its folder, none of which fails."""
    report = folder.with_name("calls")
    report.unlink(missing_ok=True)
    command.prepare(folder)
    done = trial(command.at(folder), prepare=Failure(folder, report=report).install)
    if done.code or list(differing(folder, command.states["new"])):
        sys.exit(f"{command.arguments} without a failure:\n{done.log}{list(differing(folder, command.states['new']))}")
    return report.read_text().splitlines()


def attempt(command: Command, folder: Path, at: int, number: int, *, lasting: bool) -> dict[str, Any]:
    """Let a call fail; return how the command ended, what was left, and what is wrong about it ("" if nothing)."""
    command.prepare(folder)
    done = trial(command.at(folder), prepare=Failure(folder, at, number, lasting).install)
    left = state_of(command, folder)
    wrong = _fault(done, left)
    again = command.again(folder)
    then = trial([item.replace("FOLDER", str(folder)) for item in again])
    if then.code or (different := list(differing(folder, command.states["new"]))):
        wrong = wrong or f"then {' '.join(again)}: {then.log[-1000:] if then.code else different}"
    what = {"call": at, "error": errno.errorcode[number], "lasting": lasting}
    return {**what, "code": done.code, "left": left, "wrong": wrong, "log": done.log[-1500:] if wrong else ""}


def state_of(command: Command, folder: Path) -> str:
    """Return "old" or "new", "new, untidied", "unfinished" for what is to be resumed, "nothing", or "neither"."""
    if not folder.exists() or not any(path.is_file() for path in folder.rglob("*")):
        return "nothing"
    try:
        found = read_folder(folder, digests)
    except UserError:
        return "neither"
    for name, files in command.states.items():
        if found == files:
            return name
    new = command.states["new"]
    if found.items() >= new.items() and all(name.startswith(LEFT) for name in found.keys() - new.keys()):
        return "new, untidied"
    if "predict" in command.arguments and "_manifest.json" not in found:
        return "unfinished"
    if "old" not in command.states and _unfinished(folder):
        return "unfinished"
    return "neither" if found else "nothing"


def _fault(done: Ended, left: str) -> str:
    errors = [line for line in done.log.splitlines() if line.startswith("error: ")]
    if "Traceback" in done.log or "Exception ignored" in done.log:
        return "a traceback"
    if left == "neither":
        return "neither the old state nor the new"
    if done.code == 0:
        return "" if left == "new" else "success, but not the new state"
    return "" if done.code == 2 and len(errors) == 1 else f"exit code {done.code}, {len(errors)} lines of error"


def fail_each(command: Command, folder: Path, *, every: int = 1, first: int = 1) -> dict[str, Any]:
    """Let each call of a command fail, or some; return what became of it."""
    calls = count_calls(command, folder)
    each = []
    for at in range(first, len(calls) + 1, every):
        for lasting in (False, True):
            number = errno.ENOSPC if lasting else NUMBERS[at % len(NUMBERS)]
            each.append({"of": calls[at - 1], **attempt(command, folder, at, number, lasting=lasting)})
            if each[-1]["wrong"]:
                print(json.dumps(each[-1]), flush=True)
    return {
        "calls": len(calls),
        "kinds": dict(collections.Counter(calls).most_common()),
        "trials": len(each),
        "ends": dict(collections.Counter(f"exit code {item['code']}, {item['left']}" for item in each).most_common()),
        "faults": [item for item in each if item["wrong"]],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--commands", nargs="*", default=["train", "overwrite", "resume", "export", "bulk"])
    parser.add_argument("--every", type=int, default=1, help="of so many calls only one fails")
    parser.add_argument("--out", type=Path, required=True, help="the JSON file to write")
    options = parser.parse_args()
    origin = provenance(seed=0, packages=["safetensors", "onnx", "onnxruntime", "filelock"])
    with tempfile.TemporaryDirectory(prefix="failing-storage-") as name:
        warm_up()
        commands = make_commands(Path(name))
        found = {}
        for key in options.commands:
            found[key] = fail_each(commands[key], Path(name) / f"{key}-victim", every=options.every)
            print(key, {**found[key], "faults": len(found[key]["faults"])}, flush=True)
    faults = [item for one in found.values() for item in one["faults"]]
    trials = sum(one["trials"] for one in found.values())
    result = {**origin, "trials": trials, "failures": len(faults), "commands": found}
    options.out.write_text(json.dumps(result, indent=1).replace(name, "DIR") + "\n", "utf-8")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
