"""The packaged model is what its record says, and answers under the name `demo`."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from mixling.samples import read_sample
from mixling.samples.sets import demo_model, saved_model

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def script(load_script: Callable[[str], ModuleType]) -> ModuleType:
    return load_script("tools/demo_model.py")


def test_the_record_is_of_this_file_and_these_data(script: ModuleType) -> None:
    assert json.loads(read_sample("demo.json")) == script.record(demo_model())


def test_it_is_right_or_abstains_on_messages_of_somebody_else(load_script: Callable[[str], ModuleType]) -> None:
    script = load_script("benchmarks/outsiders.py")
    found, lines = script.measure(demo_model())
    assert len(lines) == 40
    assert found["right"] + found["abstained"] >= 26
    assert found["abstained"] <= 5
    assert found["no_topic_abstained"] >= 8


def test_these_messages_are_in_no_sample() -> None:
    with (ROOT / "benchmarks" / "outsiders.csv").open(encoding="utf-8", newline="") as file:
        others = {row["message"].casefold() for row in csv.DictReader(file)}
    for name in ("messages.csv", "messages_test.csv", "no_topic.csv", "no_topic_test.csv", "no_topic_train.csv"):
        rows = csv.DictReader(io.StringIO(read_sample(name).decode(), newline=""))
        assert others.isdisjoint(row["message"].casefold() for row in rows), name


def test_the_packaged_model_is_small() -> None:
    assert demo_model().stat().st_size <= 700_000


def test_files_and_folders_of_that_name_come_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert saved_model("demo") == demo_model()
    assert saved_model("other") == Path("other")
    Path("demo").mkdir()
    assert saved_model("demo") == Path("demo")
