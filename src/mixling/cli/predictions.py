"""Writing predictions as JSON lines, CSV or readable text, to standard output or to a file."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mixling.answers.predictions import Prediction
from mixling.cli.output import put
from mixling.data.csv_lines import cell_of, csv_line, json_of
from mixling.errors import ConfigError, near_miss, printable
from mixling.storage import atomic_file
from mixling.tasks.base import Task
from mixling.tasks.presentation import DEFAULT_SHOWN, Shown, probable
from mixling.text.encoder import Text

FORMATS = ("jsonl", "csv", "text")

Formatter = Callable[[Text | None, Any, Mapping[str, Any]], str]
"""A function from text (None: not written), result (or error message) and kept values to one row with its line end."""


@dataclass(frozen=True, kw_only=True)
class Results:
    """How the results of a command are written.

    Attributes:
        source: the name of what they are for, such as "text".
        columns: of a result in a CSV.
        to_json: returns a result as JSON values.
        csv_values: returns the values of `columns`.
        lines: returns a result as lines for a terminal.
        kept: columns of the input that a CSV has as well.
    """

    source: str
    columns: Sequence[str]
    to_json: Callable[[Any], dict[str, Any]]
    csv_values: Callable[[Any], list[Any]]
    lines: Callable[[Any], list[str]]
    kept: Sequence[str] = ()


def task_results(
    task: Task | type[Task], labels: Sequence[str] = (), *, shown: Shown = DEFAULT_SHOWN, kept: Sequence[str] = ()
) -> Results:
    """Return how the predictions of a task are written.

    Args:
        labels: the names of the model's labels.
        kept: columns of the input that are written as well.
    """
    columns, csv_values = task.table(labels, shown)

    def to_json(prediction: Prediction) -> dict[str, Any]:
        return shown.of(prediction.to_json())

    def lines(prediction: Prediction) -> list[str]:
        empty = ["  (the text has no words)"] * prediction.empty
        cut = [f"  (the {task.may_be_cut} is longer than the model's maximum; its end was ignored)"]
        if shown == DEFAULT_SHOWN:
            return [*task.lines(prediction), *empty, *cut * prediction.truncated]
        number = len(labels) if shown.probabilities else shown.top_k or 0
        return [*task.lines(prediction.top(0)), *probable(prediction, number), *empty, *cut * prediction.truncated]

    return Results(
        source="text", columns=columns, to_json=to_json, csv_values=csv_values, lines=lines, kept=kept or task.keeps
    )


def writer_for(name: str, results: Results, *, echo: bool, skip: bool, escape: bool = False) -> tuple[str, Formatter]:
    """Return the header of an output format, and the function that formats a row.

    Args:
        name: one of `FORMATS`.
        echo: write the source as well.
        skip: rows may have an error instead of a result.
        escape: see `csv_line`.

    Raises:
        ConfigError: the format is unknown, or a kept column has the name of another one.
    """

    def as_json(source: Text | None, result: Any, kept: Mapping[str, Any]) -> str:
        values = {} if source is None else {results.source: source}
        values |= {"error": result} if isinstance(result, str) else results.to_json(result)
        _refuse_taken(kept, values)
        return json_of({**kept, **values}) + "\n"

    def as_csv(source: Text | None, result: Any, kept: Mapping[str, Any]) -> str:
        fields = [cell_of(kept.get(name)) for name in results.kept]
        fields += [json_of(source) if isinstance(source, list | tuple) else source or ""] * echo
        if isinstance(result, str):
            return csv_line([*fields, *[""] * len(results.columns), result], escape=escape)
        return csv_line([*fields, *results.csv_values(result), *[""] * skip], escape=escape)

    def readable(source: Text | None, result: Any, kept: Mapping[str, Any]) -> str:
        lines = [f"{printable(name)}: {printable(str(cell_of(value)))}" for name, value in kept.items()]
        lines += [] if source is None else [printable(source if isinstance(source, str) else " ".join(source))]
        lines += [f"(no prediction: {result})"] if isinstance(result, str) else results.lines(result)
        return "\n".join(lines) + "\n"

    if name not in FORMATS:
        raise ConfigError(f"--format: got {name!r}; {near_miss(name, FORMATS)}")
    added = [*[results.source] * echo, *results.columns, *["error"] * skip]
    _refuse_taken(results.kept, added if name == "csv" else ["empty", *["error"] * skip])
    header = csv_line([*results.kept, *added]) if name == "csv" else ""
    return header, {"jsonl": as_json, "csv": as_csv, "text": readable}[name]


def _refuse_taken(kept: Iterable[str], added: Collection[str]) -> None:
    if taken := [name for name in kept if name in added]:
        raise ConfigError(
            f"--columns: predictions have a {taken[0]!r} of their own; rename the column of the input, or write into a "
            f"folder with -o FOLDER/, where the names of predictions begin with prediction_"
        )


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
