"""`mixling tune` from files to the exported best model; trials run in threads, which do not import torch again."""

from __future__ import annotations

import csv
import multiprocessing
import os
import re
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("optuna", reason="searches need optuna: pip install 'mixling[tune]'")

from mixling import Predictor, workers
from mixling.artifacts import read_run
from mixling.tuning import worker

from .conftest import Call
from .test_help import modules_after


class InThread(threading.Thread):
    """Looks like a process of multiprocessing."""

    exitcode = 0

    def __init__(self, target: Any, args: tuple[Any, ...], daemon: bool) -> None:
        connection, config, _ = args
        # Its end of the pipe would be closed by the parent, which a real process does not notice.
        self._connection = multiprocessing.connection.Connection(os.dup(connection.fileno()))
        super().__init__(target=self._work, args=(config,), daemon=daemon)

    def _work(self, config: Any) -> None:
        try:
            worker._work(self._connection, config)
        except EOFError:
            self._connection.close()

    def terminate(self) -> None:
        """Do nothing: a thread ends when its pipe is closed."""


@pytest.fixture(autouse=True)
def in_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    pipes = multiprocessing.get_context("spawn").Pipe
    monkeypatch.setattr(workers, "SPAWN", SimpleNamespace(Pipe=pipes, Process=InThread))


@pytest.fixture
def space(tmp_path: Path) -> Path:
    path = tmp_path / "space.toml"
    path.write_text("train.optim.lr = {low = 0.001, high = 0.02, log = true}\nmodel.dim = {choices = [8, 16]}\n")
    return path


def table(folder: Path) -> list[dict[str, str]]:
    with open(folder / "trials.csv", newline="") as file:
        return list(csv.DictReader(file))


def test_the_best_trial_is_exported_and_a_search_goes_on(
    call: Call, reviews: Path, space: Path, tmp_path: Path
) -> None:
    out = tmp_path / "tuned"
    done = call(
        "tune", reviews / "train.csv", "--text", "review", "--label", "stars", "--space", space, "--trials", 2,
        "--set", "train.epochs=1", "--set", "ngrams.use=never", "-o", out,
    )  # fmt: skip
    assert done.code == 0, done.err
    assert done.out.startswith("best: ")
    assert "expected best validation accuracy of n random trials:" in done.out
    # The default and two trials; a layer's feed-forward is all that has matrix products.
    factors = re.search(r"cost of the result: ([\d.]+) MFLOPs an example x ([\d,]+) examples x 3 trainings", done.out)
    assert factors is not None
    rows = table(out)
    model = read_run(out / "best")["config"]["model"]
    (layer,) = model["layers"]
    products = model["text"]["max_len"] * model["dim"] * layer["feed_forward"]["ffn_dim"]
    assert float(factors[1]) == round(2 * 2 * products / 1e6, 2)
    assert [(row["model"], row["trial"], row["state"]) for row in rows] == [
        ("mixling-small", name, "complete") for name in ("default", "0", "1")
    ]
    for row in rows[1:]:
        config = read_run(out / "trials" / "mixling-small" / f"000{row['trial']}")["config"]
        assert config["train"]["optim"]["lr"] == pytest.approx(float(row["train.optim.lr"]), rel=1e-9)
        assert config["model"]["dim"] == int(row["model.dim"])
    assert read_run(out / "best")["config"]["decisions"]["refit"] is True
    assert Predictor(out / "best").predict("what a great film").label in ("good", "bad")
    assert (out / "expected.png").exists()

    again = call("tune", "--resume", "-o", out, "--trials", 3)
    assert again.code == 0, again.err
    assert [row["trial"] for row in table(out)] == ["default", "0", "1", "2"]
    assert table(out)[:3] == rows, "no trial was repeated"


MISTAKES = [
    (["--space", "no.toml"], "no.toml: cannot be read"),
    (["--set", "train.optim.lrr=1"], "did you mean 'train.optim.lr'"),
    (["--time-budget", "soon"], "--time-budget: got 'soon'"),
    (["--resume"], "--resume takes all other options"),
]


@pytest.mark.parametrize(("options", "words"), MISTAKES, ids=lambda value: value[0] if isinstance(value, list) else "")
def test_mistakes_are_reported_before_a_trial(
    call: Call, reviews: Path, tmp_path: Path, options: list[str], words: str
) -> None:
    out = tmp_path / "out"
    done = call("tune", reviews / "train.csv", "--text", "review", "--label", "stars", "-o", out, *options)
    assert (done.code, out.exists()) == (2, False)
    assert words in done.err


def test_an_unknown_key_in_a_space_is_named(call: Call, reviews: Path, tmp_path: Path) -> None:
    (tmp_path / "space.toml").write_text("train.optim.lrr = {low = 0.1, high = 1.0}\n")
    files = [reviews / "train.csv", "--text", "review", "--label", "stars", "--space", tmp_path / "space.toml"]
    done = call("tune", *files, "-o", tmp_path / "out")
    assert done.code == 2
    assert "space.toml: train.optim.lrr = 0.1: " in done.err
    assert "did you mean 'train.optim.lr'" in done.err
    assert not (tmp_path / "out").exists()


def test_a_missing_search_cannot_be_resumed(call: Call, tmp_path: Path) -> None:
    done = call("tune", "--resume", "-o", tmp_path / "none")
    assert done.code == 2
    assert "there is no search to resume" in done.err


def test_the_command_starts_without_optuna() -> None:
    loaded = modules_after("import mixling.cli.commands.tune")
    assert loaded & {"optuna", "torch", "numpy", "multiprocessing"} == set()
