"""`mixling bench`: costs and recall of a mixer beside the table, a task in their place, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mixling.mixers import MixerConfig
from mixling.research.bench import recall, tasks

from .conftest import Call


def row(form: str, best: float) -> dict[str, Any]:
    scores = dict.fromkeys(("32", "64", "128"), best)
    return {"form": form, "parameters": 9, "validation": {"0.001": 1.0}, "rate": 0.001, "recall": scores, "state": None}


@pytest.fixture
def untrained(monkeypatch: pytest.MonkeyPatch) -> None:
    """Models are made, not trained: the higher the rate, the better they are said to be."""

    def train(mixer: MixerConfig, *, length: int, causal: bool, rate: float, steps: int) -> Any:
        return recall.RecallModel(mixer, length=length, causal=causal), rate

    monkeypatch.setattr(recall, "train_recall", train)
    monkeypatch.setattr(recall, "table", lambda: {"all of it": row("full", 1.0), "nothing": row("full", 0.0)})


@pytest.mark.usefixtures("untrained")
def test_both_forms_stand_among_the_other_mixers(call: Call, tmp_path: Path) -> None:
    done = call("bench", "linear_attention", "--set", "num_heads=2", "-o", tmp_path / "mine.json")
    assert done.code == 0, done.err
    costs, recalled = done.out.split("\n\n")
    assert [line.split()[:2] for line in costs.splitlines()[2:]] == [
        ["linear_attention", f"{n}"] for n in (128, 512, 2048)
    ]
    first, full, causal, last, _ = recalled.splitlines()[1:]
    assert first.startswith("all of it  ")
    assert last.startswith("nothing  ")
    assert {full.split("  ")[0], causal.split("  ")[0]} == {"* linear_attention", "* linear_attention, causal"}
    saved = json.loads((tmp_path / "mine.json").read_text())
    assert saved["mixer"]["num_heads"] == 2
    assert [line["rate"] for line in saved["recall"]] == [0.01, 0.01]
    assert [line["state"] for line in saved["recall"]] == [None, 2 * 2 * 32 * 33]


def test_a_task_is_measured_instead(call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def measured(mixer: MixerConfig, name: str, data: Path | None, log: Any) -> dict[str, Any]:
        return {"validation": {"0.001": 0.5}, "rate": 0.001, "test": 0.25}

    monkeypatch.setattr(tasks, "run_task", measured)
    done = call("bench", "fourier", "--task", "listops", "-o", tmp_path / "mine.json")
    assert done.out == "listops: 0.250 on test, at learning rate 0.001\n"
    assert json.loads((tmp_path / "mine.json").read_text())["listops"]["test"] == 0.25


@pytest.mark.parametrize(
    ("arguments", "reported"),
    [
        (["atention"], "unknown mixer 'atention'; did you mean 'attention'"),
        (["attention", "--set", "heads=2"], "heads"),
        (["attention", "--set", "num_heads=5"], "64 is not a multiple of num_heads 5"),
        (["attention", "--task", "glue"], "--task: got 'glue'; allowed: listops, sst2, sick, conjnli or cogs"),
        (["attention", "--task", "sst2"], "--data: got nothing"),
    ],
)
def test_what_cannot_be_measured_is_reported(call: Call, arguments: list[str], reported: str) -> None:
    done = call("bench", *arguments)
    assert done.code == 2
    assert reported in done.err.splitlines()[-1]
