"""Tasks, one a file: `task = "tagging"` in a configuration means the file `tagging.py`.

Those of others are found by an entry point of the group "mixling.tasks", whose name is the task's, or are given to
`register`. Importing this package, or a task, imports no torch.
"""

from __future__ import annotations

import functools
import importlib
import pkgutil
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from mixling.errors import ConfigError, near_miss

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from mixling.tasks.base import Task

T = TypeVar("T", bound="type[Task]")

GROUP = "mixling.tasks"
DEFAULT_TASK = "classification"
_NOT_TASKS = ("base", "masked_lm")
_SAMPLE = 100  # rows that are looked at to see which task they are of

_registered: dict[str, type[Task]] = {}


def task_names() -> list[str]:
    """Return the names of all tasks: the files of this package, and those of others."""
    return sorted({*own_tasks(), *_registered, *(point.name for point in _entry_points())})


def own_tasks() -> list[str]:
    """Return the names of the library's own tasks, without a look at what else is installed."""
    return sorted(info.name for info in pkgutil.iter_modules(__path__) if info.name not in _NOT_TASKS)


def register(task: T) -> T:
    """Make a task of one's own known by its name, in configurations and model files; usable as a decorator.

    Raises:
        ConfigError: another task has the name.
    """
    if task.name in task_names() and _registered.get(task.name) is not task:
        raise ConfigError(f"task {task.name!r}: there is one of this name already; choose another name")
    _registered[task.name] = task
    return task


def task_type(name: str) -> type[Task]:
    """Return a task by its name.

    Raises:
        ConfigError: there is none; the message names the nearest one.
    """
    return _registered[name] if name in _registered else _load(name)


@functools.cache
def _load(name: str) -> type[Task]:
    if name in own_tasks():
        module = importlib.import_module(f"{__name__}.{name}")
        return next(item for item in vars(module).values() if isinstance(item, type) and vars(item).get("name") == name)
    found: list[type[Task]] = [point.load() for point in _entry_points() if point.name == name]
    if not found:
        raise ConfigError(f"unknown task {name!r}; {near_miss(name, task_names())}")
    return found[0]


def _entry_points() -> list[EntryPoint]:
    from importlib.metadata import entry_points  # it takes longer than all the rest here

    return list(entry_points(group=GROUP))


def infer_task(data: Mapping[str, Any]) -> tuple[str, str]:
    """Return the task that the options and the first training file suggest, and why.

    Args:
        data: values of a `DataConfig`.

    Raises:
        DataError: the file cannot be read.
    """
    from itertools import islice

    from mixling.config import parse
    from mixling.data.examples import ColumnsConfig
    from mixling.data.readers import OnBadRow, read_rows
    from mixling.tasks.base import Sample

    named, files = data.get("columns", {}), data.get("train", ())
    tasks = [task_type(name) for name in task_names()]
    for task in tasks:
        if found := sorted(task.own_columns & named.keys()):
            return task.name, f"columns of the task are named: {', '.join(found)}"
    if not files:
        return DEFAULT_TASK, "the default"
    file_format = data.get("file_format")
    rows = read_rows(files[0], on_bad_row=OnBadRow("skip"), file_format=file_format)
    sample = Sample(
        path=files[0],
        file_format=file_format,
        named=frozenset(named),
        columns=parse(ColumnsConfig, dict(named), where="data.columns"),
        rows=[row.values for row in islice(rows, _SAMPLE)],
    )
    for task in tasks:
        if task.own_columns and {"text", "text_pair", "label"} & named.keys():
            continue
        if why := task.recognize(sample):
            return task.name, why
    return DEFAULT_TASK, "the default"
