"""No command writes through a symbolic link: one is planted at every name that a run writes, dot files included."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.skipif(os.name == "nt", reason="links need rights there")]

MODEL = Path(__file__).parents[1] / "golden" / "model-v1.onnx"
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
run()
"""
COMMANDS = {
    "train": ["train", "rows.csv", "--epochs", "1", "--overwrite", "-o", "out"],
    "train again": ["train", "rows.csv", "--epochs", "1", "--resume", "-o", "out"],
    "predict": ["predict", str(MODEL), "rows.csv", "-o", "out.jsonl"],
    "bulk": ["predict", str(MODEL), "rows.csv", "-o", "out/"],
    "evaluate": ["evaluate", str(MODEL), "rows.csv", "-o", "out.json"],
    "config": ["config", "-o", "out.toml"],
}


def run(folder: Path, name: str) -> list[str]:
    """Run a command in a folder; return the names of what it writes there, without names that are drawn."""
    folder.mkdir(exist_ok=True)
    rows = [f"{word} {number},{label}" for number in range(60) for word, label in (("fine", "good"), ("dull", "bad"))]
    (folder / "rows.csv").write_text("\n".join(["text,label", *rows]) + "\n")
    log = folder.with_suffix(".log")
    subprocess.run([sys.executable, "-c", TRACED, str(log), *COMMANDS[name]], cwd=folder, capture_output=True)
    found = [os.path.relpath(line, folder) for line in log.read_text().splitlines()]
    return [item for item in found if item[:2] != ".." and item != "." and not re.search(r"\.\w{8}\.part$", item)]


@pytest.mark.parametrize("name", COMMANDS)
def test_what_a_planted_link_points_to_is_unchanged(tmp_path: Path, name: str) -> None:
    written = run(tmp_path / "first", name if name != "train again" else "train")
    precious = tmp_path / "precious"
    assert written or name == "config"
    names = {*written, "out/.lock.json"} - {"rows.csv"}
    names = {item for item in names if not any(other.startswith(f"{item}/") for other in names)}
    precious.write_text("precious")
    for folder, target in ((tmp_path / "planted", precious), (tmp_path / "dangling", tmp_path / "new")):
        for item in names - {"out/.lock"}:  # which is refused before anything is written
            (folder / item).parent.mkdir(parents=True, exist_ok=True)
            (folder / item).symlink_to(target)
        run(folder, name)
    assert precious.read_text() == "precious"
    assert not (tmp_path / "new").exists()
