"""A training that was cut off anywhere and goes on ends with the bytes of one that was not."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mixling import ModelFileError, TrainConfig
from mixling.errors import Interrupted, TrainingError
from mixling.training import (
    CHECKPOINT,
    HISTORY,
    AugmentationConfig,
    Callback,
    Interrupts,
    OptimConfig,
    Step,
    Terminated,
    Trainer,
    load_checkpoint,
    terminations,
)

pytestmark = pytest.mark.slow  # each trains, most several times

MakeTrainer = Callable[..., Trainer]
CONFIG = TrainConfig(
    epochs=2, batch_size=8, token_dropout=0.2, checkpoint_seconds=1e-9, patience=6, optim=OptimConfig(lr=0.05)
)
STEPS = 14
ADAFACTOR = OptimConfig(name="adafactor", lr=0.1, schedule="inverse_sqrt")
# What else a run may differ in: rows, and the optimizer's state.
KINDS: dict[str, dict[str, Any]] = {
    "tagging": {"tagged": True},
    "texts encoded anew": {"keep": False},
    "changed words": {"config": CONFIG.model_copy(update={"augmentation": AugmentationConfig(pseudo_words=0.4)})},
    "adafactor": {"config": CONFIG.model_copy(update={"optim": ADAFACTOR})},
}


class Cut(Exception):
    """Stands for kill -9: nothing of the loop runs after it but `finally`."""


class CutAt(Callback):
    """Cuts at a step, before or after what the loop does at its end."""

    def __init__(self, step: int, *, at_evaluation: bool = False) -> None:
        self.step, self.at_evaluation = step, at_evaluation

    def stepped(self, step: Step) -> None:
        if not self.at_evaluation and step.number == self.step:
            raise Cut

    def evaluated(self, record: dict[str, Any]) -> None:
        if self.at_evaluation and record["step"] >= self.step:
            raise Cut


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def content_and_files(folder: Path) -> Any:
    """The files, of the checkpoint what is in it: safetensors writes its metadata in any order."""
    tensors, state = load_checkpoint(folder / CHECKPOINT)
    weights = {name: value.tobytes() for name, value in tensors.items()}
    return weights, state, {name: content for name, content in files(folder).items() if name != CHECKPOINT}


def finish(made: Trainer, **options: Any) -> tuple[dict[str, bytes], Any, list[dict[str, Any]]]:
    history = made.fit(**options)
    assert made.folder is not None
    return {n: v.numpy().tobytes() for n, v in made.model.state_dict().items()}, content_and_files(made.folder), history


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[Any, Any]:
    """What uninterrupted trainings end with, made when first asked for."""
    return {"folder": tmp_path_factory}


def uninterrupted(whole: dict[Any, Any], trainer: MakeTrainer, **options: Any) -> Any:
    key = tuple(sorted(options.items()))
    if key not in whole:
        whole[key] = finish(trainer(folder=whole["folder"].mktemp("whole"), **{"config": CONFIG, **options}))
    return whole[key]


@pytest.mark.parametrize("at_evaluation", [False, True])
@pytest.mark.parametrize("step", range(1, STEPS + 1))
def test_cut_at_any_step(
    trainer: MakeTrainer, run_folder: Path, whole: dict[Any, Any], step: int, at_evaluation: bool
) -> None:
    with pytest.raises(Cut):
        trainer(CONFIG, folder=run_folder, callback=CutAt(step, at_evaluation=at_evaluation)).fit()
    assert finish(trainer(CONFIG, folder=run_folder), resume=True) == uninterrupted(whole, trainer)


@pytest.mark.parametrize("kind", KINDS)
def test_cut_at_every_step_in_turn(trainer: MakeTrainer, run_folder: Path, whole: dict[Any, Any], kind: str) -> None:
    """Each attempt makes one step, which it may save, and is cut in the next."""
    options = {"config": CONFIG, "folder": run_folder, **KINDS[kind]}
    with pytest.raises(Cut):
        trainer(callback=CutAt(2), **options).fit()
    for step in range(3, STEPS + 1):
        with pytest.raises(Cut):
            trainer(callback=CutAt(step), **options).fit(resume=True)
    ended = finish(trainer(**options), resume=True)
    assert ended == uninterrupted(whole, trainer, **KINDS[kind])


def test_rare_checkpoints_repeat_the_steps_since_the_last_and_leave_no_stale_lines(
    trainer: MakeTrainer, run_folder: Path, whole: dict[Any, Any]
) -> None:
    rare = CONFIG.model_copy(update={"checkpoint_seconds": 1e9})
    with pytest.raises(Cut):
        trainer(rare, folder=run_folder, callback=CutAt(11)).fit()
    assert (run_folder / HISTORY).read_text("utf-8").count("\n") == 5
    assert load_checkpoint(run_folder / CHECKPOINT)[1]["step"] == 0
    with (run_folder / HISTORY).open("a") as file:
        file.write('{"half a li')  # what a kill inside a write leaves
    assert finish(trainer(rare, folder=run_folder), resume=True) == uninterrupted(whole, trainer)
    lines = (run_folder / HISTORY).read_text("utf-8").splitlines()
    assert [json.loads(line)["step"] for line in lines] == [2, 4, 6, 8, 10, 12, 14]


def test_resuming_what_is_finished_changes_nothing(
    trainer: MakeTrainer, whole: dict[Any, Any], run_folder: Path
) -> None:
    finish(trainer(CONFIG, folder=run_folder))
    assert finish(trainer(CONFIG, folder=run_folder), resume=True) == uninterrupted(whole, trainer)


def test_patience_counts_over_an_interruption(trainer: MakeTrainer, tmp_path: Path) -> None:
    config = CONFIG.model_copy(update={"epochs": 20, "patience": 3, "optim": OptimConfig(lr=0.1)})
    for name in ("whole", "cut"):
        (tmp_path / name).mkdir()
    expected = finish(trainer(config, folder=tmp_path / "whole"))
    last = expected[2][-1]["step"]
    assert last < 20 * 7, "the case must stop early"
    with pytest.raises(Cut):
        trainer(config, folder=tmp_path / "cut", callback=CutAt(last - 1)).fit()
    assert finish(trainer(config, folder=tmp_path / "cut"), resume=True) == expected


def test_the_plan_of_a_time_budget_is_kept_or_shortened(trainer: MakeTrainer, run_folder: Path) -> None:
    config = CONFIG.model_copy(update={"epochs": 1000, "time_budget": 0.5, "patience": None})
    with pytest.raises(Cut):
        trainer(config, folder=run_folder, callback=CutAt(2)).fit()
    planned = load_checkpoint(run_folder / CHECKPOINT)[1]["total_steps"]
    trainer(config, folder=run_folder).fit(resume=True)
    ended = load_checkpoint(run_folder / CHECKPOINT)[1]
    assert ended["step"] == ended["total_steps"] <= planned  # fewer where the steps are slower than they were measured


def test_a_checkpoint_of_other_data_or_configuration_is_refused(trainer: MakeTrainer, run_folder: Path) -> None:
    with pytest.raises(Cut):
        trainer(CONFIG, folder=run_folder, fingerprint="one", callback=CutAt(3)).fit()
    before = files(run_folder)
    with pytest.raises(TrainingError, match="other data or another configuration") as error:
        trainer(CONFIG, folder=run_folder, fingerprint="two").fit(resume=True)
    assert str(run_folder / CHECKPOINT) in str(error.value)
    assert files(run_folder) == before


def test_a_damaged_checkpoint_is_refused_and_kept(trainer: MakeTrainer, run_folder: Path) -> None:
    with pytest.raises(Cut):
        trainer(CONFIG, folder=run_folder, callback=CutAt(3)).fit()
    content = bytearray((run_folder / CHECKPOINT).read_bytes())
    content[-9] ^= 1
    (run_folder / CHECKPOINT).write_bytes(content)
    before = files(run_folder)
    with pytest.raises(ModelFileError, match="checksum"):
        trainer(CONFIG, folder=run_folder).fit(resume=True)
    assert files(run_folder) == before


class SignalAt(Callback):
    """Sends this process a signal at a step, as a terminal or a scheduler would."""

    def __init__(self, signum: int, step: int, *, at_evaluation: bool = False) -> None:
        self.signum, self.step, self.at_evaluation = signum, step, at_evaluation

    def stepped(self, step: Step) -> None:
        if not self.at_evaluation and step.number == self.step:
            os.kill(os.getpid(), self.signum)

    def evaluated(self, record: dict[str, Any]) -> None:
        if self.at_evaluation and record["step"] == self.step:
            os.kill(os.getpid(), self.signum)


@pytest.mark.parametrize(("signum", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
@pytest.mark.parametrize(("step", "at_evaluation"), [(5, False), (STEPS, True)], ids=["midway", "last evaluation"])
def test_a_signal_saves_and_leaves(
    trainer: MakeTrainer,
    run_folder: Path,
    whole: dict[Any, Any],
    signum: int,
    code: int,
    step: int,
    at_evaluation: bool,
) -> None:
    before = signal.getsignal(signum)
    rare = CONFIG.model_copy(update={"checkpoint_seconds": 1e9})
    callback = SignalAt(signum, step, at_evaluation=at_evaluation)
    with pytest.raises(Interrupted) as error:
        trainer(rare, folder=run_folder, callback=callback).fit()
    assert error.value.exit_code == code
    assert f"mixling train --resume -o {run_folder}" in str(error.value)
    assert load_checkpoint(run_folder / CHECKPOINT)[1]["step"] == min(step + 1, STEPS)
    assert signal.getsignal(signum) is before
    assert finish(trainer(rare, folder=run_folder), resume=True) == uninterrupted(whole, trainer)


BUSY = {  # in C code, which calls no handler of Python
    "in training": "from mixling.training.interrupts import Interrupts as hold",
    "elsewhere": "from mixling.training.interrupts import terminations as hold",
}


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="sends the signals of POSIX")
@pytest.mark.parametrize("where", BUSY)
@pytest.mark.parametrize("second", [signal.SIGINT, signal.SIGTERM])
def test_a_second_signal_ends_the_process_whatever_c_code_does(where: str, second: int) -> None:
    code = f"""
import itertools, os, signal
{BUSY[where]}
with hold():
    try:
        os.kill(os.getpid(), signal.SIGTERM)
    except KeyboardInterrupt:
        pass
    print("ready", flush=True)
    sum(itertools.repeat(0))
"""
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(second)
        assert process.wait(10) == -second


@pytest.mark.skipif(os.name == "nt", reason="sends the signals of POSIX")
@pytest.mark.parametrize("where", BUSY)
@pytest.mark.parametrize(("first", "second"), [(signal.SIGTERM, signal.SIGINT), (signal.SIGINT, signal.SIGINT)])
def test_the_first_of_two_signals_may_come_while_c_code_computes(where: str, first: int, second: int) -> None:
    """No handler of Python is called before the second one."""
    code = f"""
import itertools, signal
from mixling.training.interrupts import handle, raise_once
handle(signal.SIGINT, raise_once)
{BUSY[where]}
with hold():
    print("ready", flush=True)
    sum(itertools.repeat(0))
"""
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        time.sleep(0.2)
        process.send_signal(first)
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.3)
        process.send_signal(second)
        try:
            assert process.wait(10) == -second
        finally:
            process.kill()


def test_an_interrupt_that_a_library_made_another_exception_of() -> None:
    """pydantic's schemas are such a library."""

    def fail(*signals: int) -> None:
        with terminations():
            try:
                for number in signals:
                    signal.raise_signal(number)
            finally:
                raise ValueError("a schema could not be made")

    before = signal.getsignal(signal.SIGINT)
    try:
        with pytest.raises(Terminated):
            fail(signal.SIGTERM)
    finally:
        signal.signal(signal.SIGINT, before)
    with pytest.raises(ValueError, match="a schema"):
        fail()


def test_after_the_context_signals_are_handled_as_before() -> None:
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    with Interrupts() as interrupts:
        os.kill(os.getpid(), signal.SIGINT)
        assert interrupts.received == signal.SIGINT
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before


def test_outside_the_main_thread_signals_are_left_alone(trainer: MakeTrainer, run_folder: Path) -> None:
    ended: list[int] = []
    thread = threading.Thread(target=lambda: ended.append(len(trainer(CONFIG, folder=run_folder).fit())))
    thread.start()
    thread.join()
    assert len(ended) == 1


def test_bits_do_not_depend_on_which_words_the_encoder_met_first(trainer: MakeTrainer) -> None:
    """Texts that are encoded anew number their words in the order of the steps, and a resumed run begins late."""
    kept, anew = trainer(CONFIG), trainer(CONFIG, keep=False)
    for made in (kept, anew):
        made.data.train.lengths[:] = 1  # the same buckets, so the same batches
        made.data.validation.lengths[:] = 1
        made.fit()
    for a, b in zip(kept.model.parameters(), anew.model.parameters(), strict=True):
        assert a.detach().numpy().tobytes() == b.detach().numpy().tobytes()
