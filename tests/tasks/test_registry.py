"""Tasks are found by their names, and known before torch is loaded."""

from __future__ import annotations

import subprocess
import sys

import pytest

from mixling.errors import ConfigError
from mixling.tasks import own_tasks, task_names, task_type


def test_every_file_is_a_task_of_its_name() -> None:
    assert {"classification", "multi_label", "tagging", "question_answering"} <= set(own_tasks()) <= set(task_names())
    for name in own_tasks():
        task = task_type(name)
        assert task.name == name
        assert task.reader.wanted
    assert len({task_type(name).kind for name in own_tasks()}) == len(own_tasks())


def test_an_unknown_task_is_refused_with_its_near_miss() -> None:
    with pytest.raises(ConfigError, match="unknown task 'taging'; did you mean 'tagging'"):
        task_type("taging")


def test_no_task_loads_what_only_training_needs() -> None:
    code = (
        "import sys; from mixling.tasks import own_tasks, task_type; [task_type(name) for name in own_tasks()]; "
        "print(*{'torch', 'sklearn', 'scipy', 'pyarrow', 'onnxruntime'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "\n", "")
