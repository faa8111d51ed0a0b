"""How predictions are written: JSON lines, CSV or text for people, to standard output or to a file."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from mixling.cli.output import put
from mixling.errors import ConfigError, near_miss, printable
from mixling.storage import atomic_file
from mixling.tasks.base import Task
from mixling.text.encoder import Text
from mixling.text.predictions import Prediction

FORMATS = ("jsonl", "csv", "text")
_FORMULA = re.compile(r"(?!-?\d+(\.\d+)?\Z)[=+\-@\t\r]")

Writer = Callable[[Text | None, Prediction | str, str | None], str]
"""Text and prediction, or what was wrong with the row, and its id to one row of output with its line end."""


def writer_for(name: str, *, task: Task, echo: bool, skip: bool, escape: bool = False) -> tuple[str, Writer]:
    """What stands before the first row, and the writer of a row.

    Args:
        task: of the model.
        echo: write the text as well.
        skip: rows without an answer are to be expected.
        escape: as `csv_line`.

    Raises:
        ConfigError: an unknown format, or CSV for a tagger.
    """
    if name == "jsonl":
        return "", lambda text, answer, name: _json_line(text if echo else None, answer, name)
    if name == "text":
        return "", lambda text, answer, name: _for_people(text if echo else None, answer, task)
    if name != "csv":
        raise ConfigError(f"--format: got {name!r}; {near_miss(name, FORMATS)}")
    if not task.csv_columns:
        raise ConfigError(f"the model gives {task.gives}, which a CSV cannot hold; use --format jsonl")
    header = ["text"] * echo + [*task.csv_columns] + ["error"] * skip

    def write(text: Text | None, answer: Prediction | str, name: str | None) -> str:
        fields: list[Any] = ([text if isinstance(text, str) else json.dumps(text, ensure_ascii=False)]) * echo
        if isinstance(answer, str):
            return csv_line([*[""] * (len(header) - 1), answer], escape=escape)
        return csv_line([*fields, *task.csv_values(answer, name), *[""] * skip], escape=escape)

    return csv_line(header), write


def _json_line(text: Text | None, answer: Prediction | str, name: str | None) -> str:
    row: dict[str, Any] = {} if name is None else {"id": name}
    row |= {} if text is None else {"text": text}
    row |= {"error": answer} if isinstance(answer, str) else answer.to_dict()
    return json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n"


def csv_line(fields: list[Any], *, escape: bool = False) -> str:
    """A row of a CSV with its end.

    Args:
        escape: put an apostrophe before what a spreadsheet would take for a formula; numbers stay as they are.
    """
    line = io.StringIO()
    if escape:
        fields = [f"'{field}" if _FORMULA.match(str(field)) else field for field in fields]
    csv.writer(line).writerow(fields)  # its own line end, so that both of its characters are quoted in fields
    return line.getvalue().removesuffix("\r\n") + "\n"


def _for_people(text: Text | None, answer: Prediction | str, task: Task) -> str:
    lines = [] if text is None else [printable(text if isinstance(text, str) else " ".join(text))]
    if isinstance(answer, str):
        return "\n".join([*lines, f"(no answer: {answer})"]) + "\n"
    lines += task.lines(answer)
    if answer.empty:
        lines.append("  (the text has no words: there was nothing to read)")
    if answer.truncated:
        lines.append(f"  (the {task.may_be_cut} is longer than the model reads; its end had no part in this)")
    return "\n".join(lines) + "\n"


@contextlib.contextmanager
def open_out(path: Path | None) -> Iterator[Callable[[str], None]]:
    """A function that writes text to standard output at once, or to a file that appears complete at the end, or never.

    Raises:
        StorageError: it cannot be written; what stood in the file still stands.
    """
    if path is None:
        yield put
        return
    with atomic_file(path) as file:

        def write_file(text: str) -> None:
            file.write(text.encode("utf-8", "replace"))

        yield write_file
