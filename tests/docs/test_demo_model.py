"""The packaged model is what its record says, and answers under the name `demo`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from mixling.samples import read_sample
from mixling.samples.sets import demo_model, saved_model


@pytest.fixture(scope="module")
def script(load_script: Callable[[str], ModuleType]) -> ModuleType:
    return load_script("tools/demo_model.py")


def test_the_record_is_of_this_file_and_these_data(script: ModuleType) -> None:
    assert json.loads(read_sample("demo.json")) == script.record(demo_model())


def test_the_packaged_model_is_small() -> None:
    assert demo_model().stat().st_size <= 700_000


def test_files_and_folders_of_that_name_come_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert saved_model("demo") == demo_model()
    assert saved_model("other") == Path("other")
    Path("demo").mkdir()
    assert saved_model("demo") == Path("demo")
