"""Tasks, one per file: `task = "tagging"` in a configuration means the file `tagging.py`.

A task of another package is a subclass of `mixling.tasks.Task` with a new `name`. It is found by an entry point in
the group "mixling.tasks" that has the task's name and points to the class,

    [project.entry-points."mixling.tasks"]
    length = "my_package.length:Length"

or, for one process, by `register_task`. After that `--task`, TOML files and saved models may name it. Importing this
package, or a task, does not import torch.
"""

from __future__ import annotations

import functools
import importlib
import pkgutil
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from mixling.errors import ConfigError, shown
from mixling.lazy import lazy_imports
from mixling.registry import Registry

if TYPE_CHECKING:
    from mixling.tasks.base import Task as Task
    from mixling.tasks.classification import Classification, LabelReader
    from mixling.tasks.multi_label import MultiLabel
    from mixling.tasks.objective import NO_TARGET, LossConfig
    from mixling.tasks.question_answering import ANSWER_ENDS, QuestionAnswering
    from mixling.tasks.regression import Regression
    from mixling.tasks.sample import Sample
    from mixling.tasks.tagging import Tagging

_T = TypeVar("_T", bound="type[Task]")

__getattr__, __dir__ = lazy_imports(__name__)

TASK_ENTRY_POINTS = "mixling.tasks"
DEFAULT_TASK = "classification"
BY_DEFAULT = "the default"  # why it is taken
_NOT_TASKS = ("base", "baselines", "masked_lm", "objective", "presentation", "sample")
_SECOND_TEXTS = {"text_pair", "text2", "text_2", "text_b", "sentence2", "sentence_b", "question2", "hypothesis"}
_SAMPLE = 1000  # rows that are read to infer the task


def task_names() -> list[str]:
    """Return the names of all tasks: the files of this package, registered ones, and other packages'."""
    return TASKS.names()


@functools.cache
def own_tasks() -> tuple[str, ...]:
    """Return the names of the library's own tasks, without looking for other packages."""
    return tuple(sorted(info.name for info in pkgutil.iter_modules(__path__) if info.name not in _NOT_TASKS))


def register_task(task: _T) -> _T:
    """Register a task by its name in this process; usable as a class decorator.

    Args:
        task: a subclass of `mixling.tasks.Task`. A class with the same module and name replaces the
            registered one, as when a notebook cell is run again.

    Raises:
        ConfigError: it is not such a class, or the name is taken.
    """
    TASKS.register(task)
    return task


def task_type(name: object) -> type[Task]:
    """Return the task with this name.

    Raises:
        ConfigError: there is no such task, or its entry point cannot be loaded.
    """
    return TASKS.get(name)


def _own(name: str) -> type[Task]:
    module = importlib.import_module(f"{__name__}.{name}")
    return next(item for item in vars(module).values() if isinstance(item, type) and vars(item).get("name") == name)


def _name_of(task: Any) -> str:
    """Return the name of a task."""
    from mixling.tasks.base import Task

    if not (isinstance(task, type) and issubclass(task, Task)):
        raise ConfigError(f"got {task!r}; a task is given by a subclass of mixling.tasks.Task")
    name = getattr(task, "name", None)
    if not isinstance(name, str) or not name:
        raise ConfigError(f'{task.__qualname__}: has no name; add name = "my_name"')
    if missing := sorted(task.__abstractmethods__):
        raise ConfigError(f"{task.__qualname__}: misses the methods {', '.join(missing)} of mixling.tasks.Task")
    return name


def infer_task(data: Mapping[str, Any]) -> tuple[str, str, str]:
    """Return the task that the options and the first training file suggest, why, and a hint on the columns or "".

    Args:
        data: values of a `DataConfig`.

    Raises:
        ConfigError: an option is unknown to `DataConfig`.
        DataError: the file cannot be read, or has a bad row among the first that `data.on_bad_row` does not skip.
    """
    from itertools import islice

    from mixling.config import parse
    from mixling.data.config import DataConfig
    from mixling.data.readers import OnBadRow, read_rows
    from mixling.tasks.sample import Sample

    config = parse(DataConfig, dict(data), where="data")
    named = data.get("columns", {})
    files = config.train
    tasks = [task_type(name) for name in task_names()]
    for task in tasks:
        if found := sorted(task.own_columns & named.keys()):
            return task.name, f"columns of the task are named: {', '.join(found)}", ""
    if not files:
        return DEFAULT_TASK, BY_DEFAULT, ""
    file_format = config.file_format
    columns = config.columns
    rows = (
        row.values
        for row in read_rows(files[0], on_bad_row=OnBadRow(config.on_bad_row), file_format=file_format)
        if not row.is_unlabeled
    )
    sample = Sample(
        path=files[0],
        file_format=file_format,
        text=columns.text,
        label=columns.label,
        text_pair=columns.text_pair[0] if columns.text_pair else None,
        rows=list(islice(rows, _SAMPLE)),
        rest=rows,
    )
    for task in tasks:
        if task.own_columns and named.keys() & {"text_pair", "label"} - set(task.reader.wanted):
            continue
        if why := task.recognize(sample):
            return task.name, why, _hint(task, sample)
    return DEFAULT_TASK, BY_DEFAULT, _hint(task_type(DEFAULT_TASK), sample)


def _hint(task: type[Task], sample: Sample) -> str:
    from mixling.data.cells import read_cell

    texts = [row.get(sample.text) for row in sample.rows]
    if texts and all(isinstance(text, str) and isinstance(read_cell(text), list) for text in texts):
        return f"the texts are lists that are written as text and are read as they are, such as {shown(texts[0])}"
    if "text_pair" not in task.reader.wanted or sample.text_pair is not None:
        return ""
    found = next((name for name in sample.first if name.lower() in _SECOND_TEXTS), None)
    return (
        f"the column {found!r} is not read; to learn from both texts add --text {sample.text} --text {found}"
        if found
        else ""
    )


TASKS: Registry[type[Task]] = Registry(
    "task",
    key="name",
    group=TASK_ENTRY_POINTS,
    how="mixling.tasks.register_task",
    own=own_tasks,
    load_own=_own,
    name_of=_name_of,
)
