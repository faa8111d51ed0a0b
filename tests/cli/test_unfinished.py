"""An unfinished run is described, its best model is exported, and messages state commands that can be pasted."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mixling import Predictor
from mixling.artifacts import NEXT, unfinished_run
from mixling.errors import command_line
from mixling.runs import training
from mixling.storage import locked
from mixling.training import CHECKPOINT, load_checkpoint, loop

SMALL = ("--model", "pnlp-mixer-x-small", "--set", "model.dim=8", "--set", "model.num_layers=1")


def interrupted(call: Any, reviews: Path, folder: Path, *options: str) -> Path:
    """Interrupt a run in its third epoch of four."""
    with pytest.MonkeyPatch.context() as patch:
        step = loop.Trainer._step

        def signalled(self: Any, state: Any, interrupts: Any) -> Any:
            if state.step == int(2.5 * self.steps_per_epoch):
                os.kill(os.getpid(), signal.SIGTERM)
            return step(self, state, interrupts)

        patch.setattr(loop.Trainer, "_step", signalled)
        arguments = ["train", reviews / "train.csv", "--text", "review", "--label", "stars", "--epochs", 4, *options]
        done = call(*arguments, *SMALL, "--set", "train.batch_size=32", "-o", folder)
    assert done.code == 143
    (line,) = [line for line in done.err.splitlines() if line.startswith("interrupted at step")]
    assert shlex.split(line.partition("resume with: ")[2]) == ["mixling", "train", "--resume", "-o", str(folder)]
    return folder


@pytest.fixture(scope="module")
def unfinished(call: Any, reviews: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return interrupted(call, reviews, tmp_path_factory.mktemp("unfinished") / "my model")


def test_the_latest_evaluation_stands_for_one_that_will_be_kept_as_the_last(
    call: Any, reviews: Path, tmp_path: Path
) -> None:
    folder = interrupted(call, reviews, tmp_path / "run", "--set", "train.load_best_at_end=false")
    run = unfinished_run(folder)
    assert run is not None
    assert run.best is not None
    assert not run.best["best"]
    assert run.best == load_checkpoint(folder / CHECKPOINT)[1]["history"][-1]
    assert call("export", folder, "-o", tmp_path / "latest.onnx").code == 0


def test_it_is_shown(call: Any, unfinished: Path) -> None:
    done = call("show", unfinished)
    assert done.code == 0, done.err
    lines = {line[:11].strip(): line[12:] for line in done.out.splitlines()}
    state = load_checkpoint(unfinished / CHECKPOINT)[1]
    assert lines["unfinished"] == f"run at step {state['step']} of {state['total_steps']}"
    best = [record for record in state["history"] if record["best"]][-1]
    assert lines["best so far"].startswith(f"epoch {best['epoch']:g}: ")
    assert f"accuracy {best['val_accuracy']:.4f}" in lines["best so far"]
    assert shlex.split(lines["resume with"]) == ["mixling", "train", "--resume", "-o", str(unfinished)]
    facts = json.loads(call("show", unfinished, "--json").out)
    assert facts["unfinished"]["step"] == state["step"]


def test_its_best_weights_are_exported(call: Any, unfinished: Path, reviews: Path, tmp_path: Path) -> None:
    for precision in ("int8", "float32"):
        done = call("export", unfinished, "-o", tmp_path / "best.onnx", "--precision", precision)
        assert done.code == 0, done.err
        assert "best so far of an unfinished run" in done.err
        assert Predictor(tmp_path / "best.onnx").metadata.precision == precision
    # The rows of validation that the run set aside are among these; it has its labels and words without the data.
    done = call("evaluate", tmp_path / "best.onnx", reviews / "test.csv", "--text", "review", "--label", "stars")
    assert done.code == 0, done.err


def test_what_is_exported_is_what_the_finished_run_would_keep(call: Any, unfinished: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    shutil.copytree(unfinished, folder)
    assert call("export", folder, "-o", tmp_path / "best.onnx", "--precision", "float32").code == 0
    state = load_checkpoint(folder / CHECKPOINT)[1]
    assert call("train", "--resume", "-o", folder).code == 0
    best = json.loads((folder / "metrics.json").read_text())["best"]
    same = best["step"] <= state["step"]
    assert call("export", folder, "-o", tmp_path / "whole.onnx", "--precision", "float32").code == 0
    texts = ["what a great film", "a dull plot", "the cast"]
    answers = [
        [one.probabilities for one in Predictor(tmp_path / name).predict(texts)] for name in ("best.onnx", "whole.onnx")
    ]
    assert (answers[0] == answers[1]) == same


@pytest.mark.parametrize("command", [["predict", "{}", "a text"], ["evaluate", "{}", "x.csv"]])
def test_it_does_not_predict_but_states_how_it_will(call: Any, unfinished: Path, command: list[str]) -> None:
    done = call(*(word.format(unfinished) for word in command))
    assert done.code == 2
    assert f"{unfinished}: holds an unfinished run at step" in done.err
    assert command_line("mixling", "train", "--resume", "-o", unfinished) in done.err
    assert command_line("mixling", "export", unfinished, "-o", "model.onnx") in done.err


def test_before_the_first_evaluation_there_is_nothing_to_export(call: Any, unfinished: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    shutil.copytree(unfinished, folder)
    (folder / CHECKPOINT).unlink()
    done = call("export", folder, "-o", tmp_path / "best.onnx")
    assert done.code == 2
    assert "has no evaluation yet; resume it with: mixling train --resume" in done.err
    assert "before its first checkpoint" in call("show", folder).out
    (folder / CHECKPOINT).write_bytes(b"damaged")
    for command in (["show", folder], ["export", folder, "-o", tmp_path / "best.onnx"], ["predict", folder, "a text"]):
        done = call(*command)
        assert done.code == 2
        assert f"{folder / CHECKPOINT}: is damaged" in done.err


def test_beside_a_model_it_is_shown_too(call: Any, unfinished: Path, model: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    shutil.copytree(model, folder)
    shutil.copytree(unfinished, folder / NEXT)
    done = call("show", folder)
    assert done.code == 0, done.err
    assert re.search(r"^labels +2: bad \(\d+\), good \(\d+\)$", done.out, re.MULTILINE)
    assert "unfinished  run at step" in done.out
    assert call("predict", folder, "a great film").code == 0
    run = unfinished_run(folder)
    assert run is not None
    assert run.command == command_line("mixling", "train", "--resume", "-o", folder)


def test_a_signal_before_the_first_step_ends_with_a_hint(
    call: Any, reviews: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def terminated(function: Callable[..., Any]) -> Callable[..., Any]:
        def with_signal(*arguments: Any, **options: Any) -> Any:
            found = function(*arguments, **options)
            os.kill(os.getpid(), signal.SIGTERM)
            return found

        return with_signal

    arguments = ["train", reviews / "train.csv", "--text", "review", "--label", "stars", *SMALL, "-o", tmp_path / "run"]
    before = signal.getsignal(signal.SIGTERM)
    with monkeypatch.context() as patch:
        patch.setattr("mixling.training.progress.TrainingProgress.log", terminated(lambda self, message: None))
        done = call(*arguments)
    assert done.code == 143
    assert done.err.endswith("interrupted; nothing was changed\n")
    assert not (tmp_path / "run").exists()
    with monkeypatch.context() as patch:
        patch.setattr(training, "write_setup", terminated(training.write_setup))  # the run has begun
        done = call(*arguments)
    assert done.code == 143
    assert done.err.endswith(f"interrupted; resume with: mixling train --resume -o {tmp_path / 'run'}\n")
    assert signal.getsignal(signal.SIGTERM) is before


def test_a_folder_that_another_process_writes_to_is_refused(call: Any, reviews: Path, tmp_path: Path) -> None:
    """Another thread stands for the process, see tests/test_locks.py."""
    folder, held, done = tmp_path / "run", threading.Event(), threading.Event()

    def hold() -> None:
        with locked(folder):
            held.set()
            done.wait(60)

    holder = threading.Thread(target=hold)
    holder.start()
    held.wait(60)
    rows = [reviews / "train.csv", "--text", "review", "--label", "stars"]
    for arguments in (["train", *rows], ["train", "--resume"], ["pretrain", reviews / "train.csv", "--text", "review"]):
        refused = call(*arguments, "-o", folder)
        assert refused.code == 2
        assert f"{folder}: process {os.getpid()} on " in refused.err
        assert "has been writing to this folder since " in refused.err
    done.set()
    holder.join()
    assert not folder.exists()


def test_a_backend_that_does_not_know_the_model_is_refused_before_the_run_begins(
    call: Any, reviews: Path, tmp_path: Path
) -> None:
    rows = ["train", reviews / "train.csv", "--text", "review", "--label", "stars"]
    refused = call(
        *rows, *SMALL, "--set", "train.backend=native", "--set", "model.embedding.norm=true", "-o", tmp_path / "run"
    )
    assert refused.code == 2
    assert "error: train.backend: got 'native': model.embedding.norm: got True, which" in refused.err
    assert refused.err.endswith("allowed here: torch, auto\n")
    assert not (tmp_path / "run").exists()
