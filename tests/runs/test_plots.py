"""A run folder has its plots while the run goes on, and none where matplotlib is missing; tracking is apart."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from mixling import Dataset, Example, RunConfig, fit, model_config
from mixling.config import parse
from mixling.runs import plots
from mixling.training import CHECKPOINT, Callback, Step

PLOTS = {"curves.png", "confusion.png"}


def rows(count: int) -> Dataset:
    return Dataset.from_examples(
        Example(f"{'good' if i % 2 else 'bad'} text", "ab"[i % 2], "x", i) for i in range(count)
    )


def config(**train: Any) -> RunConfig:
    small = model_config("pnlp-mixer-x-small", {"dim": 8, "num_layers": 1})
    values = {"epochs": 3, "batch_size": 8, "precision": "float32", "checkpoint_seconds": 1e-9, **train}
    return parse(
        RunConfig, {"model": small.to_dict(), "decisions": {"precision": "float32"}, "train": values}, where="test"
    )


class Cut(Exception):
    """Stands for kill -9."""


class CutAt(Callback):
    def stepped(self, step: Step) -> None:
        if step.number == 7:
            raise Cut


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Curves are drawn at each evaluation; the number of records in each picture."""
    drawn: list[int] = []
    draw = plots.training_curves
    monkeypatch.setattr(
        plots, "training_curves", lambda records, path: drawn.append(len(records)) or draw(records, path)
    )
    monkeypatch.setattr(plots.Curves.__init__, "__kwdefaults__", {"every": 0.0})
    return drawn


def test_a_killed_run_has_its_picture_and_a_resumed_one_goes_on_with_it(tmp_path: Path, at_once: list[int]) -> None:
    with pytest.raises(Cut):
        fit(config(), rows(24), rows(8), folder=tmp_path, callback=CutAt())
    assert at_once == [1, 2, 3, 4, 5, 6]
    assert (tmp_path / "curves.png").read_bytes().startswith(b"\x89PNG")
    fit(config(), rows(24), rows(8), folder=tmp_path, resume=True)
    assert at_once[6:] == [7, 8, 9]


def test_plots_are_not_drawn_often(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock, drawn = [0], []
    monkeypatch.setattr(plots.time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(plots, "training_curves", lambda records, path: drawn.append(clock[0]))
    (tmp_path / "metrics.jsonl").write_text("{}\n")
    curves = plots.Curves(tmp_path)
    curves.started(0, 100)
    for clock[0] in range(0, 100, 7):
        curves.evaluated({})
    assert drawn == [35, 70]


def test_a_run_without_matplotlib_has_no_plots_and_states_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at_once: list[int]
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    outputs: list[str] = []
    run = fit(config(), rows(24), rows(8), folder=tmp_path, log=outputs.append)
    assert run is not None
    assert not PLOTS & {path.name for path in tmp_path.iterdir()}
    reported = [line for line in outputs if "matplotlib" in line]
    assert len(reported) == 1, "once, at the end"
    assert '[plots]"' in reported[0]


def test_a_resumed_run_may_be_tracked_otherwise_and_a_new_one_has_no_old_curves(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    fit(config(), rows(24), rows(8), folder=whole)
    with pytest.raises(Cut):
        fit(config(), rows(24), rows(8), folder=cut, callback=CutAt())
    fit(config(track="tensorboard"), rows(24), rows(8), folder=cut, resume=True)
    assert list((cut / "tensorboard").iterdir())
    assert (cut / "model.onnx").read_bytes() == (whole / "model.onnx").read_bytes()
    assert {path.name for path in whole.iterdir()} == {path.name for path in cut.iterdir()} - {"tensorboard"}
    assert not (cut / CHECKPOINT).exists()
    fit(config(), rows(24), rows(8), folder=cut)
    assert not list((cut / "tensorboard").iterdir())
