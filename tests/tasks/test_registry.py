"""Tasks are found by their names, and known before torch is loaded."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest

from mixling import ConfigError
from mixling.tasks import (
    TASK_ENTRY_POINTS,
    TASKS,
    Classification,
    Regression,
    Task,
    own_tasks,
    register_task,
    task_names,
    task_type,
)

STARS = '''
from mixling.metrics.base import Score
from mixling.tasks import Regression

class Stars(Regression):
    """Stars from 1 to 5: a regression whose answers are whole numbers."""
    name, kind = "stars", "stars"
    gives = "stars for a text"
    purpose = "gives a text stars"

    @classmethod
    def recognize(cls, sample):
        return None

    def values(self, outputs):
        return super().values(outputs).round().clip(1, 5)
'''


class Stars(Regression):
    """Defined here."""

    name = "stars"


@pytest.fixture
def registered() -> Iterator[type[Task]]:
    yield register_task(Stars)
    TASKS.registered.pop("stars")


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


@pytest.mark.usefixtures("registered")
def test_a_registered_task_is_known_and_its_name_is_taken() -> None:
    assert "stars" in task_names()
    assert "stars" not in own_tasks()
    again = type("Stars", (Stars,), {"__module__": __name__, "__qualname__": "Stars"})
    assert register_task(again) is task_type("stars") is again
    other = type("Other", (Stars,), {"__module__": __name__})
    with pytest.raises(ConfigError, match=r"task 'stars': .*\.Stars has a task of this name; choose another name"):
        register_task(other)


@pytest.mark.parametrize(
    ("task", "message"),
    [
        (type("Mine", (Regression,), {"name": "tagging"}), "task 'tagging': mixling has a task of this name"),
        (type("Mine", (Regression,), {"name": ""}), "Mine: has no name; add name ="),
        (type("Mine", (Task,), {"name": "mine"}), "Mine: misses the methods compare_quantized, decode, evaluate, "),
        (dict, "a task is given by a subclass of mixling.tasks.Task"),
    ],
)
def test_what_cannot_be_registered_is_refused(task: Any, message: str) -> None:
    before = task_names()
    with pytest.raises(ConfigError, match=message):
        register_task(task)
    assert task_names() == before


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("no_such_module:Stars", "cannot be loaded: ModuleNotFoundError"),
        ("json:dumps", "a task is given by a subclass"),
        ("mixling.tasks.tagging:Tagging", "its name is 'tagging'; name the entry point so"),
    ],
)
def test_an_entry_point_that_is_of_no_use_is_named(monkeypatch: pytest.MonkeyPatch, value: str, message: str) -> None:
    monkeypatch.setattr(TASKS, "entry_points", {"stars": EntryPoint("stars", value, TASK_ENTRY_POINTS)})
    with pytest.raises(ConfigError, match=message):
        task_type("stars")
    assert task_type("classification") is Classification, "the others are as before"


@pytest.mark.slow
def test_an_installed_package_s_task_is_named_trained_and_loaded_by_another_process(tmp_path: Path) -> None:
    package = tmp_path / "site"
    info = package / "stars-1.0.dist-info"
    info.mkdir(parents=True)
    (package / "stars.py").write_text(STARS)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: stars\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[mixling.tasks]\nstars = stars:Stars\n")
    rows = "".join(f"a {word} film {i},{stars}\n" for i in range(20) for word, stars in (("good", 5), ("bad", 1)))
    (tmp_path / "rows.csv").write_text(f"text,label\n{rows}")
    (tmp_path / "run.toml").write_text(
        'task = "stars"\n[model]\npreset = "mixling-tiny"\nnum_layers = 1\n[train]\nepochs = 1\n'
    )

    def run(*args: str, site: Path | None = package) -> subprocess.CompletedProcess[str]:
        path = os.pathsep.join(filter(None, [site and str(site), os.environ.get("PYTHONPATH")]))
        environment = {**os.environ, "PYTHONPATH": path}
        command = [sys.executable, "-m", "mixling", *args]
        return subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300)

    by_toml = run("train", "rows.csv", "--config", "run.toml", "-o", "by-toml")
    assert by_toml.returncode == 0, by_toml.stderr
    answers = run("predict", "by-toml", "a good film", "--format", "text")
    assert (answers.returncode, answers.stdout.strip() in list("12345")) == (0, True), answers
    assert "gives a text stars" in (tmp_path / "by-toml" / "README.md").read_text()
    evaluated = run("evaluate", "by-toml", "rows.csv")
    assert (evaluated.returncode, "mean squared error" in evaluated.stdout) == (0, True), evaluated
    near = run("train", "rows.csv", "--task", "star", "-o", "other")
    assert (near.returncode, "did you mean 'stars'" in near.stderr) == (2, True)
    lacking = run("predict", "by-toml", "a good film", site=None)
    assert (lacking.returncode, "its task is not installed: unknown task 'stars'" in lacking.stderr) == (2, True)
