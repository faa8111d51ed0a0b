"""Which kind of run a user asks for: one that gives texts labels, or one that writes texts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from mixling.config import read_overrides, read_toml
from mixling.data.readers import OnBadRow, read_rows
from mixling.errors import ConfigError, DataError, near_miss
from mixling.runs.artifact import TEXT_TO_TEXT, TRAINING, kind_of_model
from mixling.tasks import task_names

WRITING = "text2text"  # the task of a configuration whose model writes text


def infer_kind(
    *,
    task: str | None = None,
    toml: str | None = None,
    overrides: Iterable[str] = (),
    pairs: bool = False,
    pretrained: str | Path | None = None,
    files: Sequence[str] = (),
    columns_named: bool = False,
) -> str:
    """Return TRAINING or TEXT_TO_TEXT: by the task that is named, else by the rest, and the first file's columns.

    Args:
        toml: the path of a configuration.
        overrides: KEY=VALUE as `--set` takes them.
        pairs: something is given that only runs on pairs of texts have, such as their columns or a model that writes.
        pretrained: the folder of the run whose model is trained further.
        files: of training rows.
        columns_named: columns that only labeled rows have are named.

    Raises:
        ConfigError: the configuration cannot be read, or there is no such task.
    """
    file = read_toml(toml) if toml else {}
    task = task or read_overrides(overrides).get("task") or file.get("task")
    if task is not None:
        if task != WRITING and task not in (known := task_names()):
            raise ConfigError(f"task: got {task!r}; {near_miss(str(task), (*known, WRITING))}")
        return TEXT_TO_TEXT if task == WRITING else TRAINING
    if pairs or "tasks" in file:
        return TEXT_TO_TEXT
    if pretrained is not None:
        return TEXT_TO_TEXT if kind_of_model(pretrained) == TEXT_TO_TEXT else TRAINING
    if not files or columns_named:
        return TRAINING
    try:
        first = next(iter(read_rows(files[0], on_bad_row=OnBadRow("skip"))), None)
    except DataError:  # reported when the files are read, after what is wrong with the options
        return TRAINING
    columns = set() if first is None else first.values.keys()
    return TEXT_TO_TEXT if {"source", "target"} <= columns and "label" not in columns else TRAINING
