"""Callbacks are told what happened, several in their order, and what they raise is not hidden."""

from __future__ import annotations

import subprocess
import sys
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from mixling import TrainConfig, UserError
from mixling.training import Callback, CallbackList, OptimConfig, Step, Trainer, learning_rate

CONFIG = TrainConfig(
    epochs=2, batch_size=8, gradient_accumulation_steps=3, token_dropout=0.0, optim=OptimConfig(lr=0.02)
)


class Notes(Callback):
    """Writes down what it was told; fails where it is asked to."""

    def __init__(self, notes: list[Any], name: str = "", *, fails: str = "") -> None:
        self.notes, self.name, self.fails = notes, name, fails

    def _note(self, what: str, *values: Any) -> None:
        self.notes.append((self.name, what, *values))
        if what == self.fails:
            raise KeyError(f"an error of {self.name}")

    def started(self, step: int, total_steps: int) -> None:
        self._note("started", step, total_steps)

    def stepped(self, step: Step) -> None:
        self._note("stepped", step)

    def evaluated(self, record: dict[str, Any]) -> None:
        self._note("evaluated", record)

    def finished(self) -> None:
        self._note("finished")


def test_steps_are_reported_as_they_were_made(trainer: Callable[..., Trainer]) -> None:
    notes: list[Any] = []
    made = trainer(CONFIG, callback=Notes(notes))
    history = made.fit()
    assert notes[0] == ("", "started", 0, 14)
    assert notes[-1] == ("", "finished")
    assert [note[2] for note in notes if note[1] == "evaluated"] == history
    steps: list[Step] = [note[2] for note in notes if note[1] == "stepped"]
    assert [step.number for step in steps] == list(range(1, 15))
    assert [step.learning_rate for step in steps] == [learning_rate(CONFIG.optim, number, 14) for number in range(14)]
    epoch = int(made.data.train.lengths.sum())
    assert [sum(step.tokens for step in part) for part in (steps[:7], steps[7:])] == [epoch, epoch]


def test_several_are_reported_in_their_order(trainer: Callable[..., Trainer]) -> None:
    notes: list[Any] = []
    trainer(CONFIG, callback=CallbackList(Notes(notes, "first"), Notes(notes, "second"))).fit()
    assert [note[1:] for note in notes[::2]] == [note[1:] for note in notes[1::2]]
    assert [note[0] for note in notes] == ["first", "second"] * (len(notes) // 2)


@pytest.mark.parametrize("method", ["started", "stepped", "evaluated", "finished"])
def test_a_callback_s_error_keeps_its_traceback_and_all_are_reported_of_the_end(
    trainer: Callable[..., Trainer], method: str
) -> None:
    notes: list[Any] = []
    several = CallbackList(Notes(notes, "first", fails=method), Notes(notes, "second"))
    with pytest.raises(KeyError, match="an error of first") as error:
        trainer(CONFIG, callback=several).fit()
    assert not isinstance(error.value, UserError)
    assert traceback.extract_tb(error.tb)[-1].name == "_note"
    assert [note[:2] for note in notes[-2:]] == [("first", "finished"), ("second", "finished")]


def test_the_interface_is_public_and_needs_no_torch() -> None:
    code = "import sys; from mixling.training import Callback; Callback().finished(); assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


class Counter(Callback):
    """Sums the losses of all steps, before an interruption and after it; raises at one step."""

    def __init__(self, *, cut: int | None = None) -> None:
        self.losses: list[float] = []
        self.cut = cut

    def stepped(self, step: Step) -> None:
        self.losses.append(step.loss)
        if step.number == self.cut:
            raise Cut

    def state_dict(self) -> dict[str, Any]:
        return {"losses": self.losses}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.losses = list(state["losses"])


class Cut(BaseException):
    """Nothing catches it, as nothing catches SIGKILL."""


@pytest.mark.slow
def test_the_state_of_callbacks_survives_a_resume(trainer: Callable[..., Trainer], tmp_path: Path) -> None:
    config = CONFIG.model_copy(update={"checkpoint_seconds": 1e-9})
    whole = Counter()
    trainer(config, callback=whole).fit()
    cut = CallbackList(Counter(), CallbackList(Counter(cut=6), Callback()))
    with pytest.raises(Cut):
        trainer(config, folder=tmp_path, callback=cut).fit()
    resumed = Counter(), Counter(), Counter()
    trainer(config, folder=tmp_path, callback=CallbackList(*resumed)).fit(resume=True)
    assert resumed[0].losses == resumed[1].losses == whole.losses
    assert resumed[2].losses == whole.losses[5:]  # it was added after the interruption


def test_a_callback_without_state_is_given_none(trainer: Callable[..., Trainer], tmp_path: Path) -> None:
    class Plain(Callback):
        def load_state_dict(self, state: Mapping[str, Any]) -> None:
            raise AssertionError(state)

    trainer(CONFIG, folder=tmp_path, callback=Plain()).fit()
    trainer(CONFIG, folder=tmp_path, callback=Plain()).fit(resume=True)
