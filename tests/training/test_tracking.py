"""The curves that TensorBoard reads are those of the run, once each, also after an interruption."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from mixling.errors import StorageError, UserError
from mixling.training.callbacks import Callback, Step
from mixling.training.checkpoint import load_checkpoint
from mixling.training.config import TrainConfig
from mixling.training.distributed import DistributedContext
from mixling.training.files import CHECKPOINT
from mixling.training.loop import Trainer
from mixling.training.optim import OptimConfig, learning_rate

event_accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")

CONFIG = TrainConfig(epochs=7, evaluations=7, batch_size=8, track="tensorboard", optim=OptimConfig(lr=0.02))
Curves = dict[str, list[tuple[int, float]]]


class Cut(Exception):
    """Stands for kill -9."""


class CutAt(Callback):
    def __init__(self, number: int) -> None:
        self.number = number

    def stepped(self, step: Step) -> None:
        if step.number == self.number:
            raise Cut


def curves(folder: Path) -> Curves:
    """What TensorBoard itself would show."""
    read = event_accumulator.EventAccumulator(str(folder / "tensorboard"), {"scalars": 0})
    read.Reload()
    return {tag: [(event.step, event.value) for event in read.Scalars(tag)] for tag in read.Tags()["scalars"]}


def test_curves_are_those_of_the_run(trainer: Callable[..., Trainer], run_folder: Path) -> None:
    history = trainer(CONFIG, folder=run_folder).fit()
    got = curves(run_folder)
    metrics = [key for key in history[0] if key.startswith("val_")]
    assert set(got) == {f"dev/{key[4:]}" for key in metrics} | {"train/loss", "train/learning_rate", "train/mean_loss"}
    for key in metrics:
        wanted = [(record["step"], pytest.approx(record[key], rel=1e-5)) for record in history]
        assert got[f"dev/{key[4:]}"] == wanted
    rates = [(step, pytest.approx(learning_rate(CONFIG.optim, step - 1, 49))) for step in (10, 20, 30, 40)]
    assert got["train/learning_rate"] == rates
    assert [step for step, _ in got["train/loss"]] == [10, 20, 30, 40]


def test_a_resumed_run_repeats_no_point(trainer: Callable[..., Trainer], run_folder: Path, tmp_path: Path) -> None:
    """It goes on from step 21, at which validation was evaluated; what was written of steps 28 and 30 is made again."""
    (tmp_path / "whole").mkdir()
    trainer(CONFIG, folder=tmp_path / "whole").fit()
    config = CONFIG.model_copy(update={"checkpoint_seconds": 1e-9})
    for number in (22, 33):
        with pytest.raises(Cut):
            trainer(config, folder=run_folder, callback=CutAt(number)).fit(resume=number > 22)
        config = CONFIG.model_copy(update={"checkpoint_seconds": 1e9})
    assert load_checkpoint(run_folder / CHECKPOINT)[1]["step"] == 21
    assert [curves(run_folder)[tag][-1][0] for tag in ("train/loss", "val/loss")] == [30, 28]
    trainer(config, folder=run_folder).fit(resume=True)
    assert curves(run_folder) == curves(tmp_path / "whole")


def test_a_new_run_removes_the_curves_of_an_old_one(trainer: Callable[..., Trainer], run_folder: Path) -> None:
    trainer(CONFIG, folder=run_folder).fit()
    short = CONFIG.model_copy(update={"epochs": 1})
    trainer(short, folder=run_folder).fit()
    assert [step for step, _ in curves(run_folder)["val/loss"]] == list(range(1, 8))


def test_only_the_main_process_writes_and_only_into_a_run_folder(
    trainer: Callable[..., Trainer], run_folder: Path
) -> None:
    trainer(CONFIG, folder=run_folder, distributed=DistributedContext(1, 1)).fit()
    trainer(CONFIG).fit()
    trainer(CONFIG.model_copy(update={"track": "none"}), folder=run_folder).fit()
    assert not (run_folder / "tensorboard").exists()


def test_a_missing_package_is_reported_before_the_first_step(
    trainer: Callable[..., Trainer], run_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(UserError, match=r'pip install "mixling\[track\]"'):
        trainer(CONFIG, folder=run_folder)
    assert not list(run_folder.iterdir())


def test_a_folder_that_cannot_be_made_is_reported(trainer: Callable[..., Trainer], run_folder: Path) -> None:
    (run_folder / "tensorboard").write_text("a file")
    with pytest.raises(StorageError, match="tensorboard: could not be written"):
        trainer(CONFIG, folder=run_folder).fit()
