#!/usr/bin/env python
"""Files of examples: python fuzz/readers.py [CORPUS ...] [-libFuzzer options]

The first byte of an input chooses the file's extension, the second one the task. Only errors for users may be raised,
with a line that the file has; no warning; bad rows that are skipped leave what is read without them; and a compressed
file has the rows of the file that it holds.
"""

from __future__ import annotations

import sys

import atheris

with atheris.instrument_imports(include=["mixling.data", "mixling.tasks"]):
    import contextlib
    import gzip
    import importlib
    import pkgutil
    import tempfile
    import warnings
    from pathlib import Path

    from mixling import UserError
    from mixling.data import ColumnsConfig, OnBadRow, readers
    from mixling.data.examples import read_examples
    from mixling.tasks import infer_task, task_names, task_type

    for module in pkgutil.iter_modules(readers.__path__, "mixling.data.readers."):  # each is imported when it is needed
        importlib.import_module(module.name)

EXTENSIONS = ("csv", "tsv", "jsonl", "json", "txt", "conll", "tsv.gz", "dat")
TASKS = tuple(task_type(name) for name in task_names())
FOLDER = Path(tempfile.mkdtemp(prefix="fuzz-", dir="/dev/shm" if Path("/dev/shm").is_dir() else None))


def read(path: Path, task: int, mode: str) -> tuple[list[str], int, str]:
    """Return the examples of a file, how many rows were skipped, and the error."""
    rows, bad, line = [], OnBadRow(mode), None  # type: ignore[arg-type]
    try:
        reader = TASKS[task].reader
        for row in read_examples([path], reader=reader, columns=ColumnsConfig(), on_bad_row=bad):
            rows.append(repr((row.text, row.target, row.line, row.id, row.answers)))
    except UserError as error:
        message, line = str(error), getattr(error, "line", None)
    else:
        message = ""
    if mode == "error" and line is not None and not path.name.endswith("gz"):
        content = path.read_bytes()
        most = len(content.decode("utf-8", "replace").splitlines()) + content.count(b"\0") + 1
        assert 1 <= line <= most, f"line {line} of {most}: {message}"
    return rows, bad.skipped, message


def try_bytes(data: bytes) -> None:
    """Check what becomes of an input."""
    if len(data) < 2:
        return
    extension, task, content = EXTENSIONS[data[0] % len(EXTENSIONS)], data[1] % len(TASKS), data[2:]
    path = FOLDER / f"rows.{extension}"
    path.write_bytes(content)
    rows, _, error = read(path, task, "error")
    skipping, skipped, error_skipping = read(path, task, "skip")
    if not error:
        assert (rows, 0, "") == (skipping, skipped, error_skipping), (rows, skipping, skipped, error_skipping)
    if data[0] & 128:
        packed = FOLDER / f"rows.{extension}.gz"
        packed.write_bytes(gzip.compress(content, 1))
        if content[:2] != b"\x1f\x8b" and not extension.endswith("gz"):
            again, _, error_again = read(packed, task, "error")
            assert (rows, not error) == (again, not error_again), (rows, error, again, error_again)
    if data[0] & 64:
        with contextlib.suppress(UserError):
            infer_task({"train": (str(path),)})


if __name__ == "__main__":
    warnings.simplefilter("error")
    atheris.Setup(sys.argv, try_bytes)
    atheris.Fuzz()
