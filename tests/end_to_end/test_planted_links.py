"""No command writes through a symbolic link: one is planted at every name that a run writes, dot files included."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.skipif(os.name == "nt", reason="links need rights there")]

MODEL = str(Path(__file__).parents[1] / "golden" / "model-v1.onnx")
TRACED = """
import atexit, os, sys
names, out = set(), sys.argv.pop(1)
def hook(event, arguments):
    if event == "open" and isinstance(arguments[0], (str, os.PathLike)) and arguments[2] & (os.O_WRONLY | os.O_RDWR):
        names.add(os.path.abspath(arguments[0]))
    elif event in ("os.rename", "os.link"):
        names.add(os.path.abspath(arguments[1]))
sys.addaudithook(hook)
atexit.register(lambda: open(out, "w").write("\\n".join(names)))
from mixling.cli import run
from mixling.cli.commands import demo
from mixling.samples import sets
demo._ACCURACY = 0.1  # what a few rows reach
read = sets.read_sample
sets.read_sample = lambda name: b"\\n".join(read(name).split(b"\\n")[:201]) + b"\\n"
run()
"""
TRAIN = ["train", "rows.csv", "--epochs", "1", "-o", "out"]
COMMANDS = {
    "train": [*TRAIN, "--overwrite"],
    "train again": [*TRAIN, "--resume"],
    "tune": ["tune", "rows.csv", "--trials", "1", "--set", "train.epochs=1", "-o", "out"],
    "distill": ["distill", "rows.csv", "--teacher", MODEL, "--epochs", "1", "-o", "out"],
    "pretrain": ["pretrain", "rows.csv", "--set", "train.steps=1", "-o", "out"],
    "predict": ["predict", MODEL, "rows.csv", "-o", "out.jsonl"],
    "bulk": ["predict", MODEL, "rows.csv", "-o", "out/"],
    "evaluate": ["evaluate", MODEL, "rows.csv", "-o", "out.json"],
    "explain": ["explain", MODEL, "rows.csv", "-o", "out.jsonl"],
    "suggest": ["suggest", MODEL, "rows.csv", "-o", "out.csv"],
    "export": ["export", MODEL, "-o", "out.onnx"],
    "audit": ["audit", "rows.csv", "--epochs", "1", "-o", "out"],
    "compare": ["compare", "rows.csv", "--set", "train.epochs=1", "-o", "out.json"],
    "sample": ["sample", "messages", "--overwrite", "-o", "out"],
    "encode": ["encode", MODEL, "rows.csv", "-o", "out"],
    "encode into a file": ["encode", MODEL, "rows.csv", "-o", "out.npy"],
    "dedup": ["dedup", "rows.csv", "-o", "out.csv", "--report", "report.csv"],
    "export a page": ["export", "demo", "--browser", "out"],
    "demo": ["demo", "--overwrite", "--no-open", "-o", "out"],
}


def run(folder: Path, name: str) -> tuple[list[str], str]:
    """Run a command in a folder; return the names of what it writes there, without names that are drawn."""
    folder.mkdir(exist_ok=True)
    rows = [f"{word} {number},{label}" for number in range(60) for word, label in (("fine", "good"), ("dull", "bad"))]
    (folder / "rows.csv").write_text("\n".join(["text,label", *rows]) + "\n")
    log, before = folder.with_suffix(".log"), set(folder.rglob("*"))
    command = [sys.executable, "-c", TRACED, str(log), *COMMANDS[name]]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    new = {str(path) for path in set(folder.rglob("*")) - before if path.is_file()}  # also of other processes
    found = [os.path.relpath(line, folder) for line in {*log.read_text().splitlines(), *new}]
    return [item for item in found if item[:2] != ".." and item != "." and not _is_drawn(item)], done.stderr


def _is_drawn(name: str) -> bool:
    return bool(re.search(r"\.\w{8}\.part$|(^|/)tmp\w{8}", name))


@pytest.mark.parametrize("name", COMMANDS)
def test_what_a_planted_link_points_to_is_unchanged(tmp_path: Path, name: str) -> None:
    written, error = run(tmp_path / "first", name if name != "train again" else "train")
    assert written, error
    names = {*written, "out/.lock.json"} - {"rows.csv"}
    names = sorted(item for item in names if not any(other.startswith(f"{item}/") for other in names))
    names.remove("out/.lock") if "out/.lock" in names else None  # which is refused before anything is written
    for parity in (0, 1) if name.startswith("train") else (0,):  # the others write in the same ways
        folder = tmp_path / f"planted {parity}"
        precious = tmp_path / f"precious {parity}"
        precious.mkdir()
        for number, item in enumerate(names):
            (folder / item).parent.mkdir(parents=True, exist_ok=True)
            (folder / item).symlink_to(precious / str(number))
            if number % 2 == parity:  # the others point to nothing
                (precious / str(number)).write_text("precious")
        run(folder, name)
        kept = [str(number) for number in range(len(names)) if number % 2 == parity]
        assert sorted(os.listdir(precious)) == sorted(kept), names
        assert {(precious / number).read_text() for number in kept} <= {"precious"}
