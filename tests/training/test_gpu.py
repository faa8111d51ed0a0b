"""Training on a GPU: losses, resuming with identical bytes, checkpoints across devices, and DDP."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn.parallel import DistributedDataParallel

from mixling import TrainConfig
from mixling.mixers import mixer_config
from mixling.training import Callback, Step, Trainer
from mixling.training.backends import TorchBackend

MakeTrainer = Callable[..., Trainer]
DEVICE = "cuda"
pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")]
CONFIG = TrainConfig(
    epochs=2, batch_size=8, evaluations=4, backend="torch", device="cuda", precision="float32", checkpoint_seconds=1e-9
)
ON_CPU = CONFIG.model_copy(update={"device": "cpu"})
MIXERS = ("attention", "hypermixing", "spatial_gating", "token_mlp")


class Cut(Exception):
    pass


class CutAt(Callback):
    """Ends a training at a step, as a kill does."""

    def __init__(self, step: int) -> None:
        self.step = step

    def stepped(self, step: Step) -> None:
        if step.number == self.step:
            raise Cut


def weights(trainer: Trainer) -> dict[str, bytes]:
    return {name: value.numpy().tobytes() for name, value in trainer.model.state_dict().items()}


@pytest.mark.parametrize("mixer", MIXERS)
@pytest.mark.parametrize("kind", [{}, {"tagged": True}], ids=["labels", "tags"])
def test_losses_are_the_processor_s(trainer: MakeTrainer, mixer: str, kind: dict[str, bool]) -> None:
    options = {"mixer": mixer_config({"type": mixer}), "dropout": 0.0, **kind}
    expected, found = (trainer(config, **options).fit() for config in (ON_CPU, CONFIG))
    for one, other in zip(expected, found, strict=True):
        for key in ("train_loss", "val_loss"):
            assert other[key] == pytest.approx(one[key], rel=0.01)


@pytest.mark.parametrize("mixer", MIXERS)
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_a_training_that_is_resumed_ends_with_the_same_bytes(
    trainer: MakeTrainer, run_folder: Path, mixer: str, precision: str
) -> None:
    config = CONFIG.model_copy(update={"precision": precision, "deterministic": True})
    options = {"mixer": mixer_config({"type": mixer}), "dropout": 0.1}
    whole = trainer(config, **options)
    history = whole.fit()
    for step in (3, 8):
        with pytest.raises(Cut):
            trainer(config, folder=run_folder, callback=CutAt(step), **options).fit(resume=step > 3)
    resumed = trainer(config, folder=run_folder, **options)
    assert resumed.fit(resume=True) == history
    assert weights(resumed) == weights(whole)


@pytest.mark.parametrize("first", [CONFIG, ON_CPU], ids=["from the card", "to the card"])
def test_a_checkpoint_is_continued_on_the_other_device(trainer: MakeTrainer, run_folder: Path, first: Any) -> None:
    with pytest.raises(Cut):
        trainer(first, folder=run_folder, callback=CutAt(8), dropout=0.0).fit()
    second = trainer(ON_CPU if first is CONFIG else CONFIG, folder=run_folder, dropout=0.0)
    expected = trainer(ON_CPU, dropout=0.0).fit()
    assert second.fit(resume=True)[-1]["val_loss"] == pytest.approx(expected[-1]["val_loss"], rel=0.01)


@pytest.fixture
def group(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    backend = "nccl" if DEVICE == "cuda" else "gloo"
    torch.distributed.init_process_group(backend, init_method=f"file://{tmp_path / 'group'}", rank=0, world_size=1)
    yield
    torch.distributed.destroy_process_group()


@pytest.mark.usefixtures("group")
def test_ddp_with_one_process_is_the_training_of_one(trainer: MakeTrainer) -> None:
    alone, among = trainer(CONFIG, dropout=0.0), trainer(CONFIG, dropout=0.0)
    assert isinstance(among.backend, TorchBackend)
    among.backend._parallel = among.backend._called = DistributedDataParallel(among.backend._trained)
    expected, found = alone.fit(), among.fit()
    for one, other in zip(expected, found, strict=True):
        assert other["train_loss"] == pytest.approx(one["train_loss"], rel=1e-3)
