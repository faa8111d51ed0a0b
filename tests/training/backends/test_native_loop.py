"""The training loop with native steps beside PyTorch's."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mixling import TrainConfig
from mixling.errors import ConfigError, Interrupted
from mixling.tasks import LossConfig
from mixling.threads import limited_threads
from mixling.training import NO_AUGMENTATION, Callback, OptimConfig, Trainer
from mixling.training.backends import NativeBackend, TorchBackend

MakeTrainer = Callable[..., Trainer]
QUICK: dict[str, Any] = {
    "epochs": 6, "batch_size": 16, "evaluations": 4, "device": "cpu", "precision": "float32", "patience": None,
    "token_dropout": 0.1, "optim": OptimConfig(lr=5e-3), "augmentation": NO_AUGMENTATION,
}  # fmt: skip
FITTING = {"dropout": 0.0, "dim": 16}


def config(backend: str, **options: Any) -> TrainConfig:
    return TrainConfig(**{**QUICK, **options}, backend=backend)


def weights_of(trainer: Trainer) -> dict[str, bytes]:
    return {name: value.tobytes() for name, value in trainer.model.weights().items()}


@pytest.mark.parametrize("kind", ["texts", "tagged", "pairs"])
@pytest.mark.parametrize("balanced", [False, True])
def test_it_trains_as_pytorch_does(trainer: MakeTrainer, kind: str, balanced: bool) -> None:
    loss = LossConfig(class_weights="balanced" if balanced else "none")
    options = {**FITTING, **({} if kind == "texts" else {kind: True})}
    made = {name: trainer(config(name, loss=loss), **options) for name in ("torch", "native")}
    assert isinstance(made["native"].backend, NativeBackend)
    expected, got = (made[name].fit() for name in ("torch", "native"))
    assert [record["step"] for record in got] == [record["step"] for record in expected]
    for ours, theirs in zip(got, expected, strict=True):
        for key in ("train_loss", "val_loss"):
            assert ours[key] == pytest.approx(theirs[key], rel=2e-3), key
    assert got[-1]["val_loss"] < got[0]["val_loss"]


@pytest.mark.parametrize("tagged", [False, True])
def test_threads_change_no_byte(trainer: MakeTrainer, tagged: bool) -> None:
    found = []
    for threads in (1, 2, 4):
        made = trainer(config("native"), tagged=tagged, num_train=200, **FITTING)
        with limited_threads(threads):
            made.fit()
        found.append(weights_of(made))
    assert found[0] == found[1] == found[2]


class Stop(Callback):
    """Raises what a signal does, before the step behind `last`."""

    def __init__(self, last: int) -> None:
        self.last = last

    def stepped(self, step: Any) -> None:
        if step.number == self.last:
            raise Interrupted("stopped", signum=15)


@pytest.mark.parametrize("last", [1, 7])
def test_a_resumed_training_has_the_same_bytes(trainer: MakeTrainer, tmp_path: Path, last: int) -> None:
    quick = config("native", checkpoint_seconds=1e-9)
    whole = trainer(quick, folder=tmp_path / "whole", **FITTING)
    whole.fit()
    with pytest.raises(Interrupted):
        trainer(quick, folder=tmp_path / "part", callback=Stop(last), **FITTING).fit()
    resumed = trainer(quick, folder=tmp_path / "part", **FITTING)
    resumed.fit(resume=True)
    assert weights_of(resumed) == weights_of(whole)
    history = [(tmp_path / name / "metrics.jsonl").read_bytes() for name in ("whole", "part")]
    assert history[0] == history[1]


def test_a_time_budget_is_planned(trainer: MakeTrainer) -> None:
    made = trainer(config("native", epochs=10_000, time_budget=0.3), **FITTING)
    made.fit()
    assert 0 < made.total_steps < 40_000


def test_native_steps_are_refused_where_they_are_not_known(trainer: MakeTrainer) -> None:
    with pytest.raises(ConfigError, match=r"^train.backend: got 'native': model.layers.0.dropout: got 0.1, .*auto$"):
        trainer(config("native"), dim=16)
    with pytest.raises(ConfigError, match="adafactor"):
        trainer(config("native", optim=OptimConfig(name="adafactor")), **FITTING)
    assert isinstance(trainer(config("auto"), dim=16).backend, TorchBackend)
    assert isinstance(trainer(config("auto"), **FITTING).backend, NativeBackend)
