"""What training does differently on a GPU, with a processor in its place."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from mixling import PRESETS, ConfigError, TrainConfig, build_model
from mixling.errors import Interrupted, TrainingError
from mixling.models import tensors_of
from mixling.training import Callback, Step, Trainer
from mixling.training.backends import GPU_OPERATIONS, StepPart, TorchBackend, compiles, device_of

MakeTrainer = Callable[..., Trainer]
CONFIG = TrainConfig(epochs=2, batch_size=8, evaluations=4, backend="torch", token_dropout=0.1, precision="float32")


class Noted(Callback):
    """The numbers and losses of the steps, and where evaluations were."""

    def __init__(self) -> None:
        self.events: list[tuple[str, int, float]] = []

    def stepped(self, step: Step) -> None:
        self.events.append(("step", step.number, step.loss))

    def evaluated(self, record: dict[str, Any]) -> None:
        self.events.append(("evaluation", record["step"], record["train_loss"]))


def made(trainer: MakeTrainer, *, late: bool, config: TrainConfig = CONFIG, **options: Any) -> Trainer:
    """A trainer whose sums are read late, as a GPU's are."""
    found = trainer(config, callback=Noted(), **options)
    assert isinstance(found.backend, TorchBackend)
    found.backend.late = late
    return found


def result(trainer: Trainer, *, resume: bool = False) -> tuple[Any, ...]:
    history = trainer.fit(resume=resume)
    assert isinstance(trainer.callback, Noted)
    return {name: value.numpy().tobytes() for name, value in trainer.model.state_dict().items()}, history


def test_sums_that_are_read_late_change_no_bit(trainer: MakeTrainer, run_folder: Path) -> None:
    config = CONFIG.model_copy(update={"gradient_accumulation_steps": 2})
    for given in (CONFIG, config):
        now, late = (made(trainer, late=late, config=given) for late in (False, True))
        assert result(late) == result(now)
        assert isinstance(late.callback, Noted)
        assert isinstance(now.callback, Noted)
        assert late.callback.events == now.callback.events
    kept = made(trainer, late=True, config=CONFIG.model_copy(update={"checkpoint_seconds": 1e-9}), folder=run_folder)
    assert result(kept) == result(made(trainer, late=False))


def test_one_step_is_under_way_while_the_next_is_begun(trainer: MakeTrainer) -> None:
    one = made(trainer, late=True)
    backend = one.backend
    part = StepPart(*one.data.batch(np.arange(8), np.arange(8), seed=0, step=0), tokens=3, last=True)
    assert backend.step([part], rate=0.01, seed=0, signum=0) is None
    first = backend.step([part], rate=0.01, seed=1, signum=0)
    second = backend.last_sums()
    assert first is not None
    assert second is not None
    assert first.mean > second.mean > 0  # it has learned
    assert backend.last_sums() is None


def test_a_training_that_is_interrupted_ends_as_the_others(
    trainer: MakeTrainer, run_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = result(made(trainer, late=False))
    cut = made(trainer, late=True, folder=run_folder)
    begun: list[int] = []
    step = cut.backend.step

    def signalled(parts: Any, *, signum: int, **options: Any) -> Any:
        begun.append(1)
        return step(parts, signum=15 if len(begun) == 3 else 0, **options)

    monkeypatch.setattr(cut.backend, "step", signalled)
    with pytest.raises(Interrupted, match="interrupted at step 4 of 14"):
        cut.fit()
    assert result(made(trainer, late=True, folder=run_folder), resume=True) == whole


def test_a_loss_that_is_not_finite_names_its_step(trainer: MakeTrainer, monkeypatch: pytest.MonkeyPatch) -> None:
    one = made(trainer, late=True)
    loss, calls = one.data.objective.loss, []

    def sometimes_bad(*arguments: Any) -> tuple[Tensor, Tensor]:
        calls.append(1)
        total, weight = loss(*arguments)
        return total * (math.nan if len(calls) == 3 else 1.0), weight

    monkeypatch.setattr(one.data.objective, "loss", sometimes_bad)
    with pytest.raises(TrainingError, match=r"step 2 \(epoch 1, batch 3 of 7.*the loss is nan"):
        one.fit()


def test_batches_are_placed_with_the_same_numbers(trainer: MakeTrainer) -> None:
    one = made(trainer, late=True)
    batch = one.data.batch(np.arange(5), np.arange(5), seed=0, step=0)
    inputs, targets, weights = one.backend.prepare(batch)
    assert inputs.num_tokens == batch[0].num_tokens
    assert weights is None
    assert np.array_equal(targets.numpy(), batch[1])
    for tensor, array in zip(inputs.arguments, batch[0].arguments, strict=True):
        assert (tensor is None) == (array is None)
        assert array is None or np.array_equal(tensor.numpy(), array)


def test_a_mask_without_padding_is_one_value_on_another_device() -> None:
    whole, padded = np.ones((3, 4), bool), np.tri(3, 4, dtype=bool)
    first, second = tensors_of([whole, padded], torch.device("meta"))
    assert first is not None
    assert second is not None
    assert (first.shape, first.stride()) == ((3, 4), (0, 0))
    assert second.stride() == (4, 1)


def test_the_model_is_compiled_where_that_is_asked_for(trainer: MakeTrainer, monkeypatch: pytest.MonkeyPatch) -> None:
    """That what is compiled gives the same numbers, the contract of mixers tests."""
    given: list[Any] = []

    def noting(model: torch.nn.Module, **options: Any) -> Callable[..., Tensor]:
        assert options == {"dynamic": True}
        return lambda *arguments: given.append(1) or model(*arguments)

    monkeypatch.setattr(torch, "compile", noting)
    expected = result(made(trainer, late=False))
    assert given == []
    assert result(made(trainer, late=True, config=CONFIG.model_copy(update={"compile": "on"}))) == expected
    assert len(given) > 14  # steps and evaluations


def test_models_are_compiled_on_a_gpu_from_a_size_on(trainer: MakeTrainer, monkeypatch: pytest.MonkeyPatch) -> None:
    model = made(trainer, late=False).model
    cpu, card = torch.device("cpu"), torch.device("cuda")
    weights = sum(p.numel() for name, p in model.named_parameters() if name != "embedding.weight")
    assert not compiles(model, CONFIG, card), "no card has measured the size"
    for border, expected in ((weights, True), (weights + 1, False)):
        monkeypatch.setattr("mixling.training.backends.device.COMPILE_WEIGHTS", border)
        assert compiles(model, CONFIG, card) == expected
        assert not compiles(model, CONFIG, cpu)
    assert compiles(model, CONFIG.model_copy(update={"compile": "on"}), cpu)
    assert not compiles(model, CONFIG.model_copy(update={"compile": "off"}), card)


def test_deterministic_steps_take_only_operations_that_are(
    trainer: MakeTrainer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether bytes are the same, the tests for a GPU see; a CPU's are anyway."""
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", "")
    expected = result(made(trainer, late=True))
    one = made(trainer, late=True, config=CONFIG.model_copy(update={"deterministic": True}))
    loss, asked = one.data.objective.loss, []

    def noting(*arguments: Any) -> tuple[Tensor, Tensor]:
        asked.append(torch.are_deterministic_algorithms_enabled())
        return loss(*arguments)

    monkeypatch.setattr(one.data.objective, "loss", noting)
    assert result(one) == expected
    assert all(asked)
    assert asked
    assert not torch.are_deterministic_algorithms_enabled()

    def refusing(*arguments: Any) -> tuple[Tensor, Tensor]:
        torch.use_deterministic_algorithms(True)
        raise RuntimeError("cumsum_cuda_kernel does not have a deterministic implementation, but you set\nmore")

    two = made(trainer, late=True, config=CONFIG.model_copy(update={"deterministic": True}))
    monkeypatch.setattr(two.data.objective, "loss", refusing)
    with pytest.raises(
        ConfigError, match=r"train\.deterministic: got true: cumsum_cuda_kernel .*; allowed with .* false$"
    ):
        two.fit()
    assert not torch.are_deterministic_algorithms_enabled()


def test_native_steps_are_not_compiled(trainer: MakeTrainer) -> None:
    config = CONFIG.model_copy(update={"compile": "on", "backend": "native"})
    with pytest.raises(
        ConfigError, match=r"train\.backend: got 'native': native steps are C.*allowed here: torch, auto"
    ):
        trainer(config)


def test_a_gpu_is_used_where_a_step_has_enough_operations(
    trainer: MakeTrainer, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    one = made(trainer, late=False)

    def chosen(**changes: Any) -> str:
        return device_of(one.model, one.data, CONFIG.model_copy(update=changes), said.append).type

    assert chosen() == "cpu"  # there is none
    assert chosen(device="cuda") == "cuda"
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert chosen(device="cpu") == "cpu"
    assert said == []
    assert chosen() == "cpu"
    sample = one.data.batch(np.arange(8), np.arange(8), seed=0, step=0)[0].num_tokens / 8
    weights = sum(p.numel() for name, p in one.model.named_parameters() if name != "embedding.weight")
    border = math.ceil(GPU_OPERATIONS / (6 * weights * sample))
    assert [chosen(batch_size=size) for size in (border - 1, border)] == ["cpu", "cuda"]
    assert said[-1].startswith("device: cuda, as a step has about 10 billion operations and a GPU is used from 10 on")
    assert said[-2].endswith("for the other: --set train.device=cuda")


def test_the_default_pretraining_takes_the_gpu_and_a_small_training_the_processor() -> None:
    """By the operations of their steps: 64 texts of 128 tokens, and of 10."""
    with torch.device("meta"):
        model = build_model(PRESETS["gmlp-tiny"].config, 2, output="subwords")
    weights = sum(p.numel() for name, p in model.named_parameters() if name not in model.embedding_tables)
    assert 6 * weights * 64 * 128 > GPU_OPERATIONS > 6 * weights * 64 * 10
