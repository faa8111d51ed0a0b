"""Writing predictions as JSON lines, CSV or readable text, to standard output or to a file."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from mixling.cli.output import put
from mixling.data.csv_lines import csv_line
from mixling.errors import ConfigError, near_miss, printable
from mixling.storage import atomic_file
from mixling.tasks.base import Task
from mixling.text.encoder import Text
from mixling.text.predictions import Prediction

FORMATS = ("jsonl", "csv", "text")

Formatter = Callable[[Text | None, Prediction | str, str | None], str]
"""A function from text (None: it is not written), prediction (or error message) and id to one row with its line end."""


def writer_for(
    name: str, *, task: Task | type[Task], echo: bool, skip: bool, escape: bool = False
) -> tuple[str, Formatter]:
    """Return the header of an output format, and the function that formats a row.

    Args:
        name: one of `FORMATS`.
        task: the model's task.
        echo: write the text as well.
        skip: rows may have an error instead of a prediction.
        escape: see `csv_line`.

    Raises:
        ConfigError: the format is unknown, or CSV cannot hold the task's predictions.
    """
    if name == "jsonl":
        return "", _json_line
    if name == "text":
        return "", lambda text, result, name: _readable(text, result, task)
    if name == "parquet":
        raise ConfigError("--format: parquet is written into folders only, by bulk prediction: -o FOLDER/")
    if name != "csv":
        raise ConfigError(f"--format: got {name!r}; {near_miss(name, FORMATS)}")
    if not task.csv_columns:
        raise ConfigError(f"the model predicts {task.gives}, which CSV cannot hold; use --format jsonl")
    header = ["text"] * echo + [*task.csv_columns] + ["error"] * skip

    def write(text: Text | None, result: Prediction | str, name: str | None) -> str:
        if isinstance(result, str):
            return csv_line([*[""] * (len(header) - 1), result], escape=escape)
        fields: list[Any] = [text if isinstance(text, str) else json.dumps(text, ensure_ascii=False)] * echo
        return csv_line([*fields, *task.csv_values(result, name), *[""] * skip], escape=escape)

    return csv_line(header), write


def _json_line(text: Text | None, result: Prediction | str, name: str | None) -> str:
    row: dict[str, Any] = {} if name is None else {"id": name}
    row |= {} if text is None else {"text": text}
    row |= {"error": result} if isinstance(result, str) else result.to_json()
    return json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n"


def _readable(text: Text | None, result: Prediction | str, task: Task | type[Task]) -> str:
    lines = [] if text is None else [printable(text if isinstance(text, str) else " ".join(text))]
    if isinstance(result, str):
        return "\n".join([*lines, f"(no prediction: {result})"]) + "\n"
    lines += task.lines(result)
    if result.empty:
        lines.append("  (the text has no words)")
    if result.truncated:
        lines.append(f"  (the {task.may_be_cut} is longer than the model's maximum; its end was ignored)")
    return "\n".join(lines) + "\n"


@contextlib.contextmanager
def open_output(path: Path | None) -> Iterator[Callable[[str], None]]:
    """Yield a function that writes text to standard output at once, or to a file that replaces `path` at the end.

    Raises:
        StorageError: the file cannot be written; an older file is unchanged.
    """
    if path is None:
        yield put
        return
    with atomic_file(path) as file:

        def write_file(text: str) -> None:
            file.write(text.encode("utf-8", "replace"))

        yield write_file
