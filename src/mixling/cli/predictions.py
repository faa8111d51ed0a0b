"""Writing predictions as JSON lines, CSV or readable text, to standard output or to a file."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
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

Formatter = Callable[[Text | None, Any, str | None], str]
"""A function from text (None: it is not written), result (or error message) and id to one row with its line end."""


@dataclass(frozen=True, kw_only=True)
class Results:
    """How the results of a command are written.

    Attributes:
        source: the name of what they are for, such as "text".
        columns: of a result in a CSV.
        to_json: returns a result as JSON values.
        csv_values: returns the values of `columns`; given a result and its id.
        lines: returns a result as lines for a terminal.
        ids: JSON has the ids of rows.
    """

    source: str
    columns: Sequence[str]
    to_json: Callable[[Any], dict[str, Any]]
    csv_values: Callable[[Any, str | None], list[Any]]
    lines: Callable[[Any], list[str]]
    ids: bool = False


def task_results(task: Task | type[Task]) -> Results:
    """Return how the predictions of a task are written."""

    def lines(prediction: Prediction) -> list[str]:
        empty = ["  (the text has no words)"] * prediction.empty
        cut = [f"  (the {task.may_be_cut} is longer than the model's maximum; its end was ignored)"]
        return [*task.lines(prediction), *empty, *cut * prediction.truncated]

    return Results(
        source="text",
        columns=task.csv_columns,
        to_json=Prediction.to_json,
        csv_values=task.csv_values,
        lines=lines,
        ids=True,
    )


def writer_for(name: str, results: Results, *, echo: bool, skip: bool, escape: bool = False) -> tuple[str, Formatter]:
    """Return the header of an output format, and the function that formats a row.

    Args:
        name: one of `FORMATS`.
        echo: write the source as well.
        skip: rows may have an error instead of a result.
        escape: see `csv_line`.

    Raises:
        ConfigError: the format is unknown.
    """

    def as_json(source: Text | None, result: Any, name: str | None) -> str:
        row: dict[str, Any] = {"id": name} if results.ids and name is not None else {}
        row |= {} if source is None else {results.source: source}
        row |= {"error": result} if isinstance(result, str) else results.to_json(result)
        return json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n"

    def as_csv(source: Text | None, result: Any, name: str | None) -> str:
        fields = [json.dumps(source, ensure_ascii=False) if isinstance(source, list | tuple) else source or ""] * echo
        if isinstance(result, str):
            return csv_line([*fields, *[""] * len(results.columns), result], escape=escape)
        return csv_line([*fields, *results.csv_values(result, name), *[""] * skip], escape=escape)

    def readable(source: Text | None, result: Any, name: str | None) -> str:
        lines = [] if source is None else [printable(source if isinstance(source, str) else " ".join(source))]
        lines += [f"(no prediction: {result})"] if isinstance(result, str) else results.lines(result)
        return "\n".join(lines) + "\n"

    if name not in FORMATS:
        raise ConfigError(f"--format: got {name!r}; {near_miss(name, FORMATS)}")
    header = csv_line([*[results.source] * echo, *results.columns, *["error"] * skip]) if name == "csv" else ""
    return header, {"jsonl": as_json, "csv": as_csv, "text": readable}[name]


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
