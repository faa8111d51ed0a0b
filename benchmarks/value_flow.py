"""Through how many source files do one text of `mixling predict` and one option of `mixling train` pass?

    python benchmarks/value_flow.py                             # this checkout
    python benchmarks/value_flow.py --commits 5e84c5d           # and an earlier commit, for comparison

A model is trained on 40 short texts in the column that `--text` names, then asked for one text, each in a process in
which every call of a function of mixling is watched. A value passes through a file if a function that is defined there
gets it as an argument, alone or within lists, dictionaries and objects (options, configurations, examples), `self`
excluded. Texts are followed with the engine that is found; the files of an earlier commit are not compiled, so that it
has no native one. Written to benchmarks/results/value_flow.json: the files in the order in which they are reached.
"""

from __future__ import annotations

import argparse
import inspect
import io
import json
import os
import runpy
import subprocess
import sys
import tarfile
import tempfile
import threading
from pathlib import Path
from types import FrameType
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
TEXT = "a text that nobody else has"
COLUMN = "column of texts"
COMMANDS = {  # with the value that is followed
    "train": (["rows.csv", "--text", COLUMN, "--epochs", "2", "--model", "mixling-tiny", "-o", "model"], COLUMN),
    "predict": (["model", TEXT], TEXT),
}
_DEPTH, _ITEMS = 4, 50  # of the containers that are searched


def holds(value: Any, wanted: str, depth: int = _DEPTH) -> bool:
    """Whether a value is the wanted one or contains it."""
    if isinstance(value, str) or not depth:
        return value == wanted if isinstance(value, str) else False
    if isinstance(value, dict):
        items = list(value.values())
    elif isinstance(value, list | tuple):
        items = list(value)
    elif type(value).__module__.startswith("mixling"):  # objects of other libraries are not searched
        slots = [name for kind in type(value).__mro__ for name in getattr(kind, "__slots__", ())]
        items = [*getattr(value, "__dict__", {}).values(), *(getattr(value, name, None) for name in slots)]
    else:
        return False
    return any(holds(item, wanted, depth - 1) for item in items[:_ITEMS])


def watch(source: str, command: str) -> list[str]:
    """Run a command of mixling in this process; return the files of `source` that its value passes through."""
    arguments, wanted = COMMANDS[command]
    found: dict[str, None] = {}

    def on_call(frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if event != "call" or not code.co_filename.startswith(source) or code.co_filename in found:
            return
        count = code.co_argcount + code.co_kwonlyargcount
        count += bool(code.co_flags & inspect.CO_VARARGS) + bool(code.co_flags & inspect.CO_VARKEYWORDS)
        names = code.co_varnames[:count]
        if any(holds(frame.f_locals.get(name), wanted) for name in names if name not in ("self", "cls")):
            found[code.co_filename] = None

    sys.argv = ["mixling", command, *arguments]
    threading.setprofile(on_call)
    sys.setprofile(on_call)
    try:
        runpy.run_module("mixling", run_name="__main__")
    except SystemExit as end:
        if end.code:
            raise
    finally:
        sys.setprofile(None)
    return [os.path.relpath(path, source) for path in found]


def follow(checkout: Path) -> dict[str, Any]:
    """Return the files of a checkout that the text and the option pass through."""
    source = str(checkout / "src" / "mixling")
    out: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        rows = [f"{word} film number {i},{label}" for i in range(20) for word, label in (("good", "+"), ("bad", "-"))]
        (Path(folder) / "rows.csv").write_text("\n".join([f"{COLUMN},label", *rows]) + "\n", "utf-8")
        environment = {**os.environ, "PYTHONPATH": str(checkout / "src")}
        for name in COMMANDS:
            command = [sys.executable, str(Path(__file__).resolve()), "--watch", name, "--source", source]
            run = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
            if run.returncode:
                raise SystemExit(run.stdout + run.stderr)
            files = json.loads(run.stdout.splitlines()[-1])
            out[name] = {"count": len(files), "files": files}
    return out


def main() -> None:
    """Follow the values through each checkout, print and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--commits", nargs="*", default=[], help="before this checkout")
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks" / "results" / "value_flow.json")
    parser.add_argument("--watch", choices=COMMANDS, help=argparse.SUPPRESS)  # in a process of its own
    parser.add_argument("--source", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.watch:
        print("\n" + json.dumps(watch(options.source, options.watch)))
        return
    from mixling.provenance import provenance  # not in the processes that are watched

    origin = provenance()
    found: dict[str, Any] = {}
    for commit in options.commits:
        archive = subprocess.run(["git", "archive", commit], cwd=ROOT, check=True, capture_output=True).stdout
        with tempfile.TemporaryDirectory() as folder:
            with tarfile.open(fileobj=io.BytesIO(archive)) as tree:
                tree.extractall(folder, filter="data")
            found[commit] = follow(Path(folder))
    found["checkout"] = follow(ROOT)
    options.out.write_text(json.dumps({"provenance": origin, "commits": found}, indent=1) + "\n", "utf-8")
    for name, values in found.items():
        for command, value in values.items():
            print(f"{name} {command}: {value['count']} files: {', '.join(value['files'])}")


if __name__ == "__main__":
    main()
