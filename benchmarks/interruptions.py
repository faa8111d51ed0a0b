"""What is left of a run that is killed, runs out of disk, diverges, or finds another one in its folder.

    OMP_NUM_THREADS=1 python benchmarks/interruptions.py replace --out benchmarks/results/replace.json
    OMP_NUM_THREADS=1 python benchmarks/interruptions.py resume --out benchmarks/results/resume.json
    OMP_NUM_THREADS=1 python benchmarks/interruptions.py starts --out benchmarks/results/starts.json

replace: a finished model is replaced with --overwrite, and the new run is killed, meets a full disk (a limit on the
size of its files) or a gradient that is not finite. The folder must hold the files of the old run or of the new one,
whole, as `mixling.artifacts.artifact.read_folder` reads them, and a model.onnx of one of them.
resume: runs of each command are killed up to three times each and resumed; the files of the finished run must have the
bytes of an uninterrupted one. `mixling compare` has no --resume: each run folder in its --keep must be resumable.
starts: processes that start into one folder at once; one of them trains, the others leave with exit code 2.

One process imports everything and forks each trial from it, so that a trial costs its run alone. A fork copies one
thread: that the others, of libraries, are asleep is checked before each, and the bytes that the trials are compared
with come from an uninterrupted run in a process that was started as usual. A kill is a SIGKILL from a timer of the
kernel, set to a random amount of the trial's CPU time, which does not depend on what else the machine does: half of
them over the whole run, half over its last fifth, where the files are written. Exit code 1 if anything is not as it
must be.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import csv
import ctypes
import dataclasses
import gc
import hashlib
import json
import os
import random
import resource
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from mixling import Dataset, Example, UserError, fit
from mixling.artifacts import NEXT, RUN_FILE, is_finished, read_folder
from mixling.cli.main import build_app, run
from mixling.provenance import provenance
from mixling.runtime import ONNX_FILE
from mixling.training.backends import NativeSteps
from mixling.training.backends.base import StepSums

SMALL = (
    *("--model", "pnlp-mixer-x-small", "--set", "model.dim=16", "--set", "model.text.projection.num_features=256"),
    *("--set", "train.checkpoint_seconds=0.02", "--set", "train.batch_size=16"),
)
TEXT = ("--set", "train.checkpoint_seconds=0.02", "--set", "train.batch_size=8")
SIZE = ("model.dim=16", "model.num_layers=1", "model.text.max_len=32", "model.text.vocabulary_size=300")
FRACTIONS = ((0.7, 0.2, 0.1), (0.1, 0.8, 0.1), (0.2, 0.2, 0.6))  # what a teacher answers
WRITER = ("model.dim=16", "tokenizer.size=300", "model.max_source_len=32", "model.max_target_len=16")


@dataclass(frozen=True)
class Ended:
    """How a trial ended: exit code, or minus the signal; seconds of CPU; what it wrote to its streams."""

    code: int
    seconds: float
    log: str


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("replace", "resume", "starts"))
    parser.add_argument("--kills", type=int, help="replace: in all [200]; resume: of each command [60]")
    parser.add_argument("--full-disks", type=int, default=20)
    parser.add_argument("--divergences", type=int, default=20)
    parser.add_argument("--starts", type=int, default=50)
    parser.add_argument("--commands", nargs="*", default=["train", "pretrain", "text2text", "distill", "compare"])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, required=True, help="the JSON file to write")
    options = parser.parse_args()
    origin = provenance(seed=options.seed, packages=["safetensors", "onnx", "onnxruntime", "filelock"])
    with tempfile.TemporaryDirectory(prefix="interruptions-") as name:
        folder = Path(name)
        write_data(folder, random.Random(options.seed))
        warm_up()
        result = {"replace": replace, "resume": resume, "starts": starts}[options.what](folder, options)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps({**origin, **result}, indent=2) + "\n", "utf-8")
    print({name: value for name, value in result.items() if name != "each"})
    sys.exit(1 if result["failures"] else 0)


# ---- trials


def warm_up() -> None:
    """Import what a run needs, and export once: the first export imports more."""
    import matplotlib.pyplot
    import onnxscript
    import scipy.sparse
    import sklearn.linear_model

    from mixling import Vocabulary, build_model, model_config
    from mixling.answers import LabelSet
    from mixling.export import export_onnx
    from mixling.models import TorchNetwork

    _ = matplotlib.pyplot, onnxscript, scipy.sparse, sklearn.linear_model, fit
    build_app()
    vocabulary = Vocabulary.parse("vocab.txt", "\n".join(["[UNK]", *"abcdefghij", *(f"##{c}" for c in "abcdefghij")]))
    config = model_config("pnlp-mixer-x-small", {"dim": 16})
    text = config.text.for_vocabulary(vocabulary)
    labels = LabelSet.from_labels(["a", "b"], "single")
    model = build_model(config.model_copy(update={"text": text}), num_outputs=2, output="text", seed=0)
    export_onnx(
        TorchNetwork(model.eval()), text=text, task="classification", labels=labels, vocabulary=vocabulary,
        precision="int8", pairs=False, reading=None,
    )  # fmt: skip
    _ = np.zeros(1), torch.zeros(1), Example, Dataset
    gc.collect()
    gc.freeze()


def start(arguments: list[str], *, kill_at: float | None = None, prepare: Callable[[], None] = int) -> tuple[int, int]:
    """Fork a trial that calls the command line; return its process, and the end of a pipe with what it prints."""
    waited = time.monotonic()
    while any(is_awake(thread) for thread in Path("/proc/self/task").iterdir()):
        if time.monotonic() - waited > 30:
            sys.exit("another thread works; a fork would not copy it")
        time.sleep(0.01)
    sys.stdout.flush()
    printed, descriptor = os.pipe()  # a file would count towards a limit on the size of files
    child = os.fork()
    if child:
        os.close(descriptor)
        return child, printed
    code = 70
    try:
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(descriptor, 1)
        os.dup2(descriptor, 2)
        os.close(descriptor)
        # The parent's may be others, such as those of a test, which keep what is printed.
        sys.stdout, sys.stderr = (open(number, "w", encoding="utf-8", closefd=False) for number in (1, 2))  # noqa: SIM115
        prepare()
        if kill_at is not None:
            kill_after(kill_at)
        sys.argv = ["mixling", *arguments]
        run()
        code = 0
    except SystemExit as end:
        code = int(end.code or 0)
    except BaseException:
        traceback.print_exc()
    finally:  # whatever happens, the parent's blocks must not be left here a second time
        with contextlib.suppress(OSError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def is_awake(thread: Path) -> bool:
    """Whether a thread beside this one does something."""
    return thread.name != str(os.getpid()) and ") S " not in (thread / "stat").read_text()


def end(child: int, printed: int) -> Ended:
    with open(printed, "rb") as pipe:
        log = pipe.read().decode("utf-8", "replace")
    _, status, usage = os.wait4(child, 0)
    code = os.waitstatus_to_exitcode(status)
    return Ended(code, usage.ru_utime + usage.ru_stime, log)


def trial(arguments: list[str], **options: Any) -> Ended:
    return end(*start(arguments, **options))


def uninterrupted(arguments: list[str], location: Path, *, out: str = "-o") -> tuple[dict[str, str], float]:
    """The files of a run in a process of its own, and the CPU seconds of a forked one with the same files."""
    usual = subprocess.run(
        [sys.executable, "-m", "mixling", *arguments, out, str(location)], capture_output=True, text=True
    )
    forked = trial([*arguments, out, str(location) + "-forked"])
    if usual.returncode or forked.code:
        sys.exit(f"{' '.join(arguments)} failed:\n{usual.stderr}{forked.log}")
    wanted = digests(location)
    if different := list(differing(Path(str(location) + "-forked"), wanted)):
        sys.exit(f"{' '.join(arguments)}: a forked process gives other files: {different}")
    return wanted, forked.seconds


def kill_after(seconds: float) -> None:
    """Let the kernel send SIGKILL when this process has used so much CPU time."""
    libc = ctypes.CDLL(None, use_errno=True)
    event = struct.pack("qii", 0, int(signal.SIGKILL), 0).ljust(64, b"\0")
    timer = ctypes.c_void_p()
    moment = struct.pack("qqqq", 0, 0, int(seconds), max(1, int(seconds % 1 * 1e9)))
    if libc.timer_create(2, event, ctypes.byref(timer)) or libc.timer_settime(timer, 0, moment, None):
        raise OSError(ctypes.get_errno(), "the timer could not be set")


def moment(rng: random.Random, seconds: float) -> float:
    return rng.uniform(0, seconds) if rng.random() < 0.5 else rng.uniform(0.8 * seconds, 1.02 * seconds)


def digests(folder: Path) -> dict[str, str]:
    """What is in the files of a run folder, without hidden ones."""
    found = (path for path in sorted(folder.rglob("*")) if path.is_file())
    named = ((path.relative_to(folder).as_posix(), path) for path in found)
    return {
        name: hashlib.sha256(path.read_bytes()).hexdigest()
        for name, path in named
        if not any(part.startswith(".") for part in Path(name).parts) and name != "complete"
    }


def write_data(folder: Path, rng: random.Random) -> None:
    """Rows of made-up words, one of which decides the label; the same as text, and as pairs to copy from."""
    words = ["".join(rng.choices("abcdefghij", k=rng.randint(2, 7))) for _ in range(200)]
    with (folder / "rows.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["text", "label"])
        for _ in range(160):
            label = rng.randrange(3)
            writer.writerow([" ".join([*rng.choices(words, k=rng.randint(3, 9)), words[label]]), f"label {label}"])
    lines = [" ".join(rng.choices(words, k=rng.randint(8, 24))) for _ in range(150)]
    (folder / "text.txt").write_text("\n".join(lines) + "\n")
    pairs = ({"source": line.split()[0] + " " + line.split()[1], "target": line.split()[0]} for line in lines)
    (folder / "pairs.jsonl").write_text("".join(json.dumps(pair) + "\n" for pair in pairs))
    fractions = ({f"label {i}": fraction for i, fraction in enumerate(rng.choice(FRACTIONS))} for _ in lines)
    answers = ({"text": line, "probabilities": fraction} for line, fraction in zip(lines, fractions, strict=True))
    (folder / "answers.jsonl").write_text("".join(json.dumps(answer) + "\n" for answer in answers))


def command(name: str, folder: Path) -> list[str]:
    """The arguments of a run, but for its folder."""
    rows, sets = str(folder / "rows.csv"), [item for value in SIZE for item in ("--set", value)]
    if name == "train":
        return ["train", rows, "--epochs", "4", *SMALL]
    if name == "pretrain":
        return [
            "pretrain",
            str(folder / "text.txt"),
            "--set",
            "train.steps=40",
            "--validation",
            str(folder / "text.txt"),
            *TEXT,
            *sets,
        ]
    if name == "text2text":
        sets = [item for value in WRITER for item in ("--set", value)]
        return ["train", str(folder / "pairs.jsonl"), "--task", "text2text", "--epochs", "3", *TEXT, *sets]
    if name == "distill":
        answers = ["--teacher", str(folder / "answers.jsonl"), "--unlabeled", str(folder / "text.txt")]
        return ["distill", rows, *answers, "--epochs", "3", *SMALL]
    return ["compare", rows, "--set", "train.epochs=2", "--set", "data.validation_fraction=0.3"]


# ---- replace

REPLACED = ("text2text", "pretrain", "train")


def replace(folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    rng = random.Random(options.seed)
    each: list[dict[str, Any]] = []
    seconds = {}
    # Of three kills one is of a run that exports model.onnx, which takes most of its time.
    for location, name in enumerate(REPLACED):
        count = {key: len(range(location, value, 3)) for key, value in planned(options).items()}
        seconds[name] = replace_runs(name, count, folder, rng, each)
        print(name, counted(each, "command", "kind", "sound"), flush=True)
    return {
        "run_seconds_of_cpu": seconds,
        "trials": len(each),
        "answers": sum(item["sound"] for item in each),
        "resumed": sum(item.get("resumed", False) for item in each),
        "outcomes": counted(each, "command", "kind", "code", "files", "next"),
        "failures": [item for item in each if not item["sound"]],
    }


def planned(options: argparse.Namespace) -> dict[str, int]:
    kills = 200 if options.kills is None else options.kills
    return {"kill": kills, "full disk": options.full_disks, "divergence": options.divergences}


def replace_runs(
    name: str, count: dict[str, int], folder: Path, rng: random.Random, each: list[dict[str, Any]]
) -> float:
    """Replace a run of a command so many times in each way; the seconds of an uninterrupted one."""
    wanted: dict[str, dict[str, str]] = {}
    arguments = {of: [*command(name, folder), "--seed", seed] for of, seed in (("old", "1"), ("new", "2"))}
    for of in ("old", "new"):
        wanted[of], seconds = uninterrupted(arguments[of], folder / f"{name}-{of}")
    largest = max(path.stat().st_size for path in (folder / f"{name}-new").iterdir())

    def tried(kind: str, **how: Any) -> None:
        victim = folder / "victim"
        shutil.rmtree(victim, ignore_errors=True)
        shutil.copytree(folder / f"{name}-old", victim)
        done = trial([*arguments["new"], "-o", str(victim), "--overwrite"], **how)
        found = read_folder(victim, digests)
        of = next((run for run in ("old", "new") if wanted[run] == found), "neither")
        model = digests(victim).get(ONNX_FILE)
        sound = of != "neither" and model in (wanted["old"].get(ONNX_FILE), wanted["new"].get(ONNX_FILE))
        if kind == "kill":
            sound = sound and done.code in (-signal.SIGKILL, 0)
        else:
            sound = sound and done.code == 2 and of == "old" and "its model is unchanged" in done.log
        state = "in place" if not (victim / NEXT).exists() else "swapping" if of == "new" else "training"
        each.append({"command": name, "kind": kind, "code": done.code, "files": of, "next": state, "sound": sound})
        if not sound:
            print(each[-1], done.log[-2000:], flush=True)
        if len(each) % 10 == 0:  # what is left must also come to its end
            print(counted(each, "command", "kind", "files", "sound"), flush=True)
            begun = (victim / NEXT / RUN_FILE).exists()
            ended = trial([arguments["new"][0], "--resume", "-o", str(victim)])
            same = digests(victim) == wanted["new" if begun or of == "new" else "old"] and ended.code == 0
            each[-1] |= {"resumed": same, "sound": sound and same}

    for _ in range(count["kill"]):
        tried("kill", kill_at=moment(rng, seconds))
    for _ in range(count["full disk"]):
        limit = int(10 ** rng.uniform(2, np.log10(0.9 * largest)))
        tried("full disk", prepare=lambda limit=limit: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)))
    for _ in range(count["divergence"]):
        tried("divergence", prepare=lambda step=rng.randrange(1, 28): diverge(step))
    return round(seconds, 2)


def diverge(step: int) -> None:
    """Give the gradient of a step a norm that is not finite."""
    make_step = NativeSteps.step
    calls = iter(range(10**9))

    def not_finite(self: NativeSteps, *arguments: Any, **options: Any) -> StepSums:
        sums = make_step(self, *arguments, **options)
        return dataclasses.replace(sums, norm=float("nan")) if next(calls) == step else sums

    NativeSteps.step = not_finite  # type: ignore[method-assign]


def counted(each: list[dict[str, Any]], *keys: str) -> dict[str, int]:
    counts = collections.Counter(", ".join(f"{key} {item[key]}" for key in keys) for item in each)
    return dict(counts.most_common())


# ---- resume


def resume(folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    rng = random.Random(options.seed)
    out: dict[str, Any] = {}
    failures: list[str] = []
    for name in options.commands:
        killed = killed_compares if name == "compare" else killed_runs
        out[name] = found = killed(name, folder, options.kills or 60, rng)
        failures += [f"{name}: {item}" for item in found.pop("differences")]
        print(name, found, flush=True)
    return {"kills": sum(item["kills"] for item in out.values()), "commands": out, "failures": failures}


def killed_runs(name: str, folder: Path, kills: int, rng: random.Random) -> dict[str, Any]:
    arguments, location = command(name, folder), folder / f"{name}-whole"
    wanted, seconds = uninterrupted(arguments, location)
    differences: list[str] = []
    made = finished = 0
    while made < kills:
        victim = folder / f"{name}-{finished}"
        for number in range(4):  # three kills at most, then it is left to finish
            again = number > 0 and (victim / RUN_FILE).exists()
            verb = [*arguments[:1], "--resume"] if again else [*arguments, *["--overwrite"] * (number > 0)]
            left = number < 3 and made < kills
            done = trial([*verb, "-o", str(victim)], kill_at=moment(rng, seconds) if left else None)
            if done.code == -signal.SIGKILL:
                made += 1
                continue
            if done.code != 0:
                differences.append(f"run {finished} ended with code {done.code}: {done.log[-500:]}")
            break
        differences += [f"run {finished}: {item}" for item in differing(victim, wanted)]
        finished += 1
        shutil.rmtree(victim, ignore_errors=True)
    return {
        "run_seconds_of_cpu": round(seconds, 2),
        "kills": made,
        "finished_runs": finished,
        "files": len(wanted),
        "differences": differences,
    }


def differing(folder: Path, wanted: dict[str, str]) -> Iterator[str]:
    """What is missing, too much or different; a hidden file is too much."""
    found = digests(folder)
    for name in sorted(found.keys() | wanted.keys()):
        if found.get(name) != wanted.get(name):
            yield f"{name}: {'missing' if name not in found else 'too much' if name not in wanted else 'other bytes'}"
    yield from (f"{path.name}: is left" for path in folder.glob(".*"))


def killed_compares(name: str, folder: Path, kills: int, rng: random.Random) -> dict[str, Any]:
    arguments, location = command(name, folder), folder / "compare-whole"
    wanted, seconds = uninterrupted(arguments, location, out="--keep")
    differences: list[str] = []
    made = resumed = 0
    for number in range(10 * kills):
        if made == kills:
            break
        keep = folder / f"compare-{number}"
        done = trial([*arguments, "--keep", str(keep)], kill_at=moment(rng, seconds))
        if done.code != -signal.SIGKILL:
            continue
        made += 1
        records = sorted(keep.rglob(RUN_FILE)) if keep.exists() else []
        for record in records:
            if not is_finished(record.parent):
                resumed += 1
                again = trial(["train", "--resume", "-o", str(record.parent)])
                if again.code:
                    differences.append(f"{record.parent}: ended with code {again.code}: {again.log[-500:]}")
            under = record.parent.relative_to(keep).as_posix() + "/"
            own = {key.removeprefix(under): value for key, value in wanted.items() if key.startswith(under)}
            differences += [f"{under}{item}" for item in differing(record.parent, own)]
        shutil.rmtree(keep, ignore_errors=True)
    return {
        "run_seconds_of_cpu": round(seconds, 2),
        "kills": made,
        "resumed_run_folders": resumed,
        "files": len(wanted),
        "differences": differences,
    }


# ---- starts


def starts(folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    arguments = [*command("train", folder), "-o", str(folder / "run")]
    children = [start(arguments) for _ in range(options.starts)]
    ended = [end(*child) for child in children]
    codes = collections.Counter(item.code for item in ended)
    reasons = collections.Counter(
        "another process writes" if "writing to this folder" in item.log else "finished" if item.code else "trained"
        for item in ended
    )
    wanted, _ = uninterrupted(arguments[:-2], folder / "alone")
    failures = [] if codes == {0: 1, 2: options.starts - 1} else [f"exit codes {dict(codes)}"]
    failures += list(differing(folder / "run", wanted))
    try:
        read_folder(folder / "run", digests)
    except UserError as error:
        failures.append(str(error))
    example = next((item.log.strip() for item in ended if "writing to this folder" in item.log), "")
    return {
        "starts": options.starts,
        "exit_codes": {str(code): count for code, count in sorted(codes.items())},
        "reasons": dict(reasons),
        "message": example.replace(str(folder), "DIR"),
        "failures": failures,
    }


if __name__ == "__main__":
    main()
