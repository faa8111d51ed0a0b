"""tools/new.py: a task that is begun with it is formatted, complete and decodes."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from mixling.answers import LabelSet
from mixling.text import Encoded


@pytest.fixture
def script(load_script: Callable[[str], ModuleType]) -> ModuleType:
    return load_script("tools/new.py")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for folder in ("src/mixling/tasks", "tests/tasks"):
        (tmp_path / folder).mkdir(parents=True)
    return tmp_path


def test_a_new_task_decodes_and_scores(script: ModuleType, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, test = script.write("mood_of_day", root)
    spec = spec_from_file_location("mood_of_day", source)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)
    spec.loader.exec_module(module)
    assert not module.MoodOfDay.__abstractmethods__
    task = module.MoodOfDay(LabelSet(("no", "yes"), "mood_of_day"))
    encoded = Encoded(np.array([7], np.int32), None, truncated=False, generation=0)
    assert task.decode(np.array([0.0, 1.0]), encoded, "a text").label == "yes"
    assert task.score(["yes", "no"], ["yes", "new"]).numbers["accuracy"] == 0.5
    assert "test_the_greatest_logit_decides" in test.read_text()


def test_a_name_that_is_taken_or_none_is_refused(script: ModuleType, root: Path) -> None:
    script.write("mood", root)
    for name, error in (("mood", "exists; choose another name"), ("Mood", "lower case"), ("a-b", "lower case")):
        with pytest.raises(SystemExit, match=error):
            script.write(name, root)
