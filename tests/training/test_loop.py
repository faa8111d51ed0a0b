"""The loop: reproducible, keeps the best evaluation on validation, stops when told, keeps to its time."""

from __future__ import annotations

import itertools
import json
import math
import shutil
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from mixling import TrainConfig
from mixling.data import TextSet, collate, training_batches
from mixling.errors import StorageError, TrainingError
from mixling.mixers import config_class, mixer_config, mixer_types
from mixling.models import TorchNetwork, tensors_of
from mixling.tasks import Classification, LossConfig
from mixling.training import (
    HISTORY,
    NO_AUGMENTATION,
    Callback,
    Interrupts,
    LabeledData,
    OptimConfig,
    Step,
    Trainer,
    dataset_adapter,
    default_evaluations,
    learning_rate,
    loop,
)
from mixling.training.backends import TorchBackend
from mixling.training.config import Initialization

MakeTrainer = Callable[..., Trainer]
QUICK: dict[str, Any] = {
    "epochs": 4,
    "batch_size": 8,
    "precision": "float32",
    "optim": OptimConfig(lr=0.02),
    "token_dropout": 0.0,
    "loss": LossConfig(label_smoothing=0.0),
}


def weights_of(trainer: Trainer) -> dict[str, bytes]:
    return {name: value.numpy().tobytes() for name, value in trainer.model.state_dict().items()}


class Recorder(Callback):
    """Keeps what it was told, and the weights at every evaluation."""

    def __init__(self) -> None:
        self.trainer: Trainer | None = None
        self.losses: list[float] = []
        self.at_evaluation: dict[int, dict[str, bytes]] = {}
        self.ended = 0

    def stepped(self, step: Step) -> None:
        self.losses.append(step.loss)
        assert step.number == len(self.losses)

    def evaluated(self, record: dict[str, Any]) -> None:
        assert self.trainer is not None
        self.at_evaluation[record["step"]] = weights_of(self.trainer)

    def finished(self) -> None:
        self.ended += 1


def recorded(trainer: Trainer) -> Recorder:
    assert isinstance(trainer.callback, Recorder)
    trainer.callback.trainer = trainer
    return trainer.callback


@pytest.mark.slow
@pytest.mark.parametrize("tagged", [False, True])
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_one_seed_gives_the_same_bits_and_another_seed_others(
    trainer: MakeTrainer, tagged: bool, precision: str
) -> None:
    def train(seed: int) -> tuple[dict[str, bytes], list[dict[str, Any]]]:
        torch.rand(seed + 3)  # what was drawn before must not matter
        made = trainer(TrainConfig(**{**QUICK, "precision": precision, "token_dropout": 0.2}, seed=seed), tagged=tagged)
        history = made.fit()
        return weights_of(made), history

    assert train(0) == train(0)
    assert train(0)[0] != train(1)[0]


@pytest.mark.parametrize("tagged", [False, True])
def test_batches_are_made_during_the_step_before_where_there_are_threads(
    trainer: MakeTrainer, monkeypatch: pytest.MonkeyPatch, tagged: bool
) -> None:
    def train(threads: int) -> tuple[dict[str, bytes], list[dict[str, Any]], list[bool]]:
        monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
        made = trainer(TrainConfig(**{**QUICK, "epochs": 2, "token_dropout": 0.2}), tagged=tagged)
        batch, ahead = type(made.data).batch, []

        def noting(*given: Any, **named: Any) -> Any:
            ahead.append(threading.current_thread().name.startswith("prefetch"))
            return batch(*given, **named)

        monkeypatch.setattr(type(made.data), "batch", noting)
        history = made.fit()
        monkeypatch.setattr(type(made.data), "batch", batch)
        return weights_of(made), history, ahead

    weights, history, alone = train(1)
    assert not any(alone)
    again, other, ahead = train(2)
    assert (again, other) == (weights, history)
    per_epoch = len(ahead) // 2
    assert ahead == ([False] + [True] * (per_epoch - 1)) * 2


@pytest.mark.slow
@pytest.mark.parametrize("tagged", [False, True])
def test_it_learns(trainer: MakeTrainer, tagged: bool) -> None:
    """The rows are made so that one word decides, nine times in ten."""
    made = trainer(TrainConfig(**{**QUICK, "epochs": 12}), num_train=300, num_validation=100, tagged=tagged)
    best = max(record[f"val_{made.data.objective.metric}"] for record in made.fit())
    assert best > (0.95 if tagged else 0.8)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mixer", "task"),
    [
        *itertools.product(mixer_types(), ["pairs", "tagging"]),
        ("hypermixing", "classification"),
    ],  # as pairs, but one text
)
def test_every_mixer_learns_every_task(trainer: MakeTrainer, mixer: str, task: str) -> None:
    sizes = {key: 8 for key in ("hidden_dim", "ffn_dim") if key in config_class(mixer).model_fields}
    made = trainer(
        TrainConfig(**{**QUICK, "epochs": 5}),
        num_train=300,
        num_validation=100,
        tagged=task == "tagging",
        pairs=task == "pairs",
        mixer=mixer_config({"type": mixer, **sizes}),
        dropout=0.0,
    )
    best = max(record[f"val_{made.data.objective.metric}"] for record in made.fit())
    assert best > (0.9 if task == "tagging" else 0.7)  # by chance: a little over a third of the texts


@pytest.mark.slow
def test_bfloat16_learns_too(trainer: MakeTrainer) -> None:
    made = trainer(TrainConfig(**{**QUICK, "epochs": 12, "precision": "bfloat16"}), num_train=300, num_validation=100)
    assert max(record["val_accuracy"] for record in made.fit()) > 0.8
    assert all(value.dtype == torch.float32 for value in made.model.parameters())


def test_the_best_evaluation_is_chosen_on_validation_and_restored(trainer: MakeTrainer, run_folder: Path) -> None:
    config = TrainConfig(**{**QUICK, "epochs": 12, "optim": OptimConfig(lr=0.1)})
    made = trainer(config, callback=Recorder(), folder=run_folder)
    callback = recorded(made)
    history = made.fit()
    ranks = [(record["val_accuracy"], -record["val_loss"]) for record in history]
    best = history[ranks.index(max(ranks))]
    assert best is not history[-1], "the case must have a best evaluation that is not the last"
    assert weights_of(made) == callback.at_evaluation[best["step"]]
    # `best` marks each record that was the best so far, so that the last marked one is the best of all.
    assert [record["best"] for record in history] == [
        rank > max(ranks[:i], default=(-1,)) for i, rank in enumerate(ranks)
    ]
    assert [json.loads(line) for line in (run_folder / HISTORY).read_text("utf-8").splitlines()] == history
    assert callback.ended == 1
    assert len(callback.losses) == 12 * math.ceil(50 / 8)


def test_the_last_evaluation_is_kept_where_that_is_asked_for(trainer: MakeTrainer) -> None:
    config = TrainConfig(**{**QUICK, "epochs": 12, "optim": OptimConfig(lr=0.1)}, load_best_at_end=False)
    made = trainer(config, callback=Recorder())
    callback = recorded(made)
    history = made.fit()
    accuracies = [record["val_accuracy"] for record in history]
    assert accuracies[-1] < max(accuracies), "the case must have a best evaluation that is not the last"
    assert weights_of(made) == callback.at_evaluation[history[-1]["step"]]
    assert [record["best"] for record in history] == [False] * 11 + [True]
    with pytest.raises(ValueError, match="patience waits for a better evaluation"):
        TrainConfig(load_best_at_end=False, patience=2)


def test_the_training_loss_is_the_mean_since_the_last_evaluation(trainer: MakeTrainer) -> None:
    made = trainer(TrainConfig(**QUICK), callback=Recorder())
    losses = recorded(made).losses
    sizes = [
        len(batch) for epoch in range(4) for batch in training_batches(made.data.train.lengths, 8, seed=0, epoch=epoch)
    ]
    before = 0
    for record in made.fit():
        part = slice(before, record["step"])
        assert record["train_loss"] == pytest.approx(np.average(losses[part], weights=sizes[part]), abs=2e-6)
        before = record["step"]


@pytest.mark.slow
def test_patience_stops_after_that_many_evaluations_that_are_no_better_and_have_no_lower_loss(
    trainer: MakeTrainer,
) -> None:
    config = {**QUICK, "epochs": 30, "optim": OptimConfig(lr=0.1)}
    whole, lines = trainer(TrainConfig(**config)).fit(), []
    history = trainer(TrainConfig(**config, patience=3), log=lines.append).fit()
    lowest = itertools.accumulate((record["val_loss"] for record in whole), min)
    progress = [record["best"] or record["val_loss"] == low for record, low in zip(whole, lowest, strict=True)]
    stale = list(itertools.accumulate(progress, lambda n, better: 0 if better else n + 1, initial=0))[1:]
    assert any(record["best"] != better for record, better in zip(whole, progress, strict=True))
    assert history == whole[: stale.index(3) + 1]
    assert len(history) < len(whole)
    assert "3 evaluations in a row" in lines[0]


@pytest.mark.slow
def test_evaluations_are_at_each_epoch_and_at_least_ten(trainer: MakeTrainer) -> None:
    def steps(**values: Any) -> list[int]:
        return [record["step"] for record in trainer(TrainConfig(**{**QUICK, **values})).fit()]

    assert steps(epochs=12) == [7 * epoch for epoch in range(1, 13)]
    assert steps(epochs=2) == [2, 4, 6, 8, 10, 12, 14]
    assert steps(epochs=2, evaluations=3) == [5, 10, 14]


@pytest.mark.parametrize(
    ("trained", "evaluated", "evaluations"),
    [
        (13_084, 700, 5),
        (22_500, 1_000, 6),
        (12_800, 5_000, 3),
        (10**6, 100, 10),
        (10, 0, 10),
        (200, 120, 10),
        (500, 600, 5),
    ],
)
def test_evaluations_take_a_tenth_of_the_time(trained: int, evaluated: int, evaluations: int) -> None:
    assert default_evaluations(trained, evaluated) == evaluations


@pytest.mark.parametrize(
    ("values", "evaluated"),
    [
        ({"steps": 5}, [1, 2, 3, 4, 5]),
        ({"steps": 5, "evaluations": 2}, [3, 5]),
        ({"steps": 5, "evaluations": 1}, [5]),
        ({"steps": 17, "evaluations": 2}, [7, 14, 17]),  # two epochs and three steps: at the ends of epochs
        ({"steps": 17, "evaluations": 4}, [5, 10, 15, 17]),
        ({"epochs": 2, "evaluations": 3}, [5, 10, 14]),
        ({"epochs": 2, "evaluations": 2}, [7, 14]),
    ],
)
def test_a_number_of_steps_and_of_evaluations(
    trainer: MakeTrainer, values: dict[str, Any], evaluated: list[int]
) -> None:
    config = TrainConfig(**{**QUICK, "epochs": 1000, **values})
    made = trainer(config, callback=Recorder())
    recorded(made)
    history = made.fit()
    assert [record["step"] for record in history] == evaluated
    assert [record["epoch"] for record in history] == [round(step / 7, 3) for step in evaluated]
    assert len(recorded(made).losses) == evaluated[-1]
    rates = [learning_rate(config.optim, step - 1, evaluated[-1]) for step in evaluated]
    assert [record["learning_rate"] for record in history] == rates


def test_fewer_steps_than_the_time_budget_allows_are_made(
    trainer: MakeTrainer, monkeypatch: pytest.MonkeyPatch
) -> None:
    Clock(monkeypatch, step=0.01, evaluation=0.01)
    assert trainer(TrainConfig(**QUICK, steps=9, time_budget=1000)).fit()[-1]["step"] == 9
    Clock(monkeypatch, step=1.0, evaluation=0.01)
    assert trainer(TrainConfig(**QUICK, steps=9000, time_budget=20)).fit()[-1]["step"] < 20


@pytest.mark.parametrize(("num_examples", "epochs"), [(100, 40), (10_000, 40), (40_000, 10), (10**7, 3)])
def test_planned_epochs(num_examples: int, epochs: int) -> None:
    assert TrainConfig().planned_epochs(num_examples) == epochs
    assert TrainConfig(epochs=7).planned_epochs(num_examples) == 7


@pytest.mark.parametrize(
    ("examples", "rows_per_label", "init", "distilled", "epochs", "embedding_lr"),
    [
        (6_000, 3_000.0, "random", False, 40, 1.0),  # as planned from scratch
        (6_000, 3_000.0, "rows", False, 10, 1.0),
        (6_000, 3_000.0, "text", False, 5, 0.3),
        (15_000, 100.0, "rows", False, 25, 1.0),
        (9_000_000, 3_000_000.0, "text", False, 3, 0.3),
        (10_000, None, "rows", False, 40, 1.0),  # words' labels, or several
        (50_000, 3_000.0, "text", True, 5, 1.0),
        (1_000, 3_000.0, "random", True, 20, 1.0),
    ],
)
def test_what_is_left_open_is_resolved_by_the_data(
    examples: int, rows_per_label: float | None, init: Initialization, distilled: bool, epochs: int, embedding_lr: float
) -> None:
    done = TrainConfig().resolved(examples, rows_per_label=rows_per_label, init=init, distilled=distilled)
    assert (done.epochs, done.optim.embedding_lr) == (epochs, embedding_lr)
    given = TrainConfig(epochs=2, optim=OptimConfig(embedding_lr=0.5), augmentation=NO_AUGMENTATION, token_dropout=0.2)
    assert given.resolved(examples, rows_per_label=rows_per_label, init=init, distilled=distilled) == given
    assert done.resolved(examples, rows_per_label=rows_per_label, init=init, distilled=distilled) == done


def test_trainings_end_early_where_their_epochs_are_chosen_by_the_examples_of_each_label() -> None:
    single = {"rows_per_label": 100.0, "init": "rows", "distilled": False}

    def patience(changes: dict[str, Any], given: TrainConfig | None = None) -> int | None:
        return (given or TrainConfig()).resolved(1_500, **(single | changes)).patience

    assert patience({}) == 5
    assert patience({}, TrainConfig(patience=2)) == 2
    others = ({"rows_per_label": None}, {"init": "random"}, {"init": "model"}, {"distilled": True})
    assert {patience(change) for change in (*others, {"cross_fitted": True})} == {None}
    planned = ({"epochs": 9}, {"steps": 90}, {"time_budget": 9.0}, {"load_best_at_end": False})
    assert {patience({}, TrainConfig(**values)) for values in planned} == {None}


@pytest.mark.parametrize(("batch_size", "epochs"), [(64, 4), (256, 16), (1024, 20)])
def test_distillation_takes_as_many_steps_with_larger_batches(batch_size: int, epochs: int) -> None:
    config = TrainConfig(batch_size=batch_size)
    assert config.resolved(60_000, rows_per_label=None, init="rows", distilled=True).epochs == epochs


def test_the_rate_of_every_step_is_the_schedule_s(trainer: MakeTrainer) -> None:
    config = TrainConfig(**QUICK)
    made = trainer(config)
    rates: list[float] = []
    made.backend.optimizer.register_step_pre_hook(lambda optimizer, *_: rates.append(optimizer.param_groups[0]["lr"]))
    history = made.fit()
    assert rates == [learning_rate(config.optim, step, 28) for step in range(28)]
    assert [record["learning_rate"] for record in history] == [rates[record["step"] - 1] for record in history]


def test_a_step_is_that_of_the_textbook(trainer: MakeTrainer) -> None:
    """Mean loss, clipped gradient and AdamW, by a loop over the texts one by one."""
    optim = OptimConfig(lr=0.01, clip_norm=0.05, warmup=0, eps=1e-3, weight_decay=0.01)
    config = TrainConfig(**{**QUICK, "epochs": 1, "batch_size": 50, "optim": optim})
    made, other = (trainer(config, dropout=0.0) for _ in range(2))
    made.fit()
    decayed = [p for p in other.model.parameters() if p.ndim > 1]
    rest = [p for p in other.model.parameters() if p.ndim < 2]
    groups = [{"params": decayed}, {"params": rest, "weight_decay": 0}]
    textbook = torch.optim.AdamW(groups, lr=0.01, weight_decay=0.01, eps=1e-3)
    losses: list[Tensor] = []
    for i in range(50):
        batch = collate(other.data.train.words(np.array([i])), other.data.train.encoder)
        logits = other.model(*tensors_of(batch.arguments))
        losses.append(-logits[0].log_softmax(0)[int(other.data.train_targets[i])])
    torch.stack(losses).mean().backward()
    norm = math.sqrt(sum(float(p.grad.square().sum()) for p in other.model.parameters() if p.grad is not None))
    assert norm > 0.05, "the case must be one where the gradient is clipped"
    for parameter in other.model.parameters():
        assert parameter.grad is not None
        parameter.grad *= 0.05 / norm
    textbook.step()
    for mine, wanted in zip(made.model.parameters(), other.model.parameters(), strict=True):
        torch.testing.assert_close(mine, wanted, rtol=1e-4, atol=2e-5)


def test_weights_of_examples_equal_repeated_rows(trainer: MakeTrainer) -> None:
    """One full batch a step, so that how rows are dealt into batches does not differ."""
    config = TrainConfig(**{**QUICK, "epochs": 5, "batch_size": 1000, "optim": OptimConfig(lr=0.01, eps=1e-3)})
    base = trainer(config, dropout=0.0)
    times = np.random.default_rng(0).integers(0, 4, size=50)
    weighted = trainer(config, dropout=0.0, weights=times.astype(np.float32))
    repeated = trainer(config, dropout=0.0)
    # The word table and the targets must be those of all rows: repeat indices, not rows.
    chosen = np.repeat(np.arange(50), times)
    train = repeated.data.train
    words = train.words
    train.words = lambda indices: words(chosen[indices])  # type: ignore[method-assign]
    train.lengths = train.lengths[chosen]
    train.__class__ = type("Repeated", (type(train),), {"__len__": lambda _: len(chosen)})
    object.__setattr__(repeated.data, "train_targets", np.asarray(repeated.data.train_targets)[chosen])
    for made in (base, weighted, repeated):
        made.fit()
    for a, b, c in zip(*(made.model.parameters() for made in (weighted, repeated, base)), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-4)
        assert a.numel() == 1 or not torch.equal(a, c)  # attention pooling does not depend on its bias


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_loss_that_is_not_finite_names_step_batch_and_rows(
    trainer: MakeTrainer, run_folder: Path, monkeypatch: pytest.MonkeyPatch, bad: float
) -> None:
    config = TrainConfig(**QUICK, checkpoint_seconds=1e-9)
    made = trainer(config, folder=run_folder, callback=Recorder())
    recorded(made)
    kept: list[bytes] = []
    loss = made.data.objective.loss

    def sometimes_bad(*arguments: Any) -> tuple[Tensor, Tensor]:
        total, weight = loss(*arguments)
        if len(recorded(made).losses) == 9 and made.model.training:  # the tenth step: epoch 2, its third batch
            kept.append((run_folder / loop.CHECKPOINT).read_bytes())
            total = total * bad
        return total, weight

    monkeypatch.setattr(made.data.objective, "loss", sometimes_bad)
    with pytest.raises(TrainingError) as error:
        made.fit()
    batch = training_batches(made.data.train.lengths, 8, seed=0, epoch=1)[2]
    lines = sorted(int(i) + 2 for i in batch)
    message = str(error.value)
    assert message.startswith("step 9 (epoch 2, batch 3 of 7, rows ")
    assert ", ".join(f"rows.csv:{line}" for line in lines[:5]) in message
    assert f"and {len(lines) - 5} more" in message
    assert f"the loss is {bad}" in message
    assert str(run_folder) in message
    assert [(run_folder / loop.CHECKPOINT).read_bytes()] == kept
    assert recorded(made).ended == 1


def test_a_gradient_that_is_not_finite_stops_before_the_weights_are_spoilt(trainer: MakeTrainer) -> None:
    made = trainer(TrainConfig(**QUICK))
    before = weights_of(made)
    made.model.head.output.bias.register_hook(lambda gradient: gradient * math.inf)  # type: ignore[union-attr]
    with pytest.raises(TrainingError, match=r"norm is (inf|nan)"):
        made.fit()
    assert weights_of(made) == before


def test_logits_of_validation_that_are_not_finite_are_a_training_s_error(trainer: MakeTrainer) -> None:
    made = trainer(TrainConfig(**QUICK))
    made.backend.optimizer.register_step_post_hook(
        lambda *_: made.model.head.output.bias.data.fill_(math.inf)  # type: ignore[union-attr]
    )
    with pytest.raises(TrainingError, match="step"):
        made.fit()


class Clock:
    """A clock that only the trainer's own work moves.

    `step` seconds a step; an evaluation takes `evaluation` seconds for its answers and `metrics` for their scores.
    """

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, *, step: float, evaluation: float, metrics: float = 0.0
    ) -> None:
        self.now = 0.0
        monkeypatch.setattr(loop.time, "monotonic", lambda: self.now)
        backward, predict, evaluate = TorchBackend._backward, dataset_adapter.predict_logits, Classification.evaluate

        def slow_backward(*arguments: Any, **options: Any) -> Tensor:
            self.now += step
            return backward(*arguments, **options)

        def slow_predict(*arguments: Any, **options: Any) -> Any:
            self.now += evaluation
            return predict(*arguments, **options)

        def slow_evaluate(*arguments: Any, **options: Any) -> Any:
            self.now += metrics
            return evaluate(*arguments, **options)

        monkeypatch.setattr(Classification, "evaluate", slow_evaluate)
        monkeypatch.setattr(TorchBackend, "_backward", slow_backward)
        monkeypatch.setattr(dataset_adapter, "predict_logits", slow_predict)


class StartOfSteps(Callback):
    """When the first step began."""

    def __init__(self, clock: Clock) -> None:
        self.clock, self.at = clock, math.nan

    def started(self, step: int, total_steps: int) -> None:
        self.at = self.clock.now


@pytest.mark.slow
@pytest.mark.parametrize(
    ("step", "evaluation", "metrics"),
    [
        (0.1, 0.0, 0.0), (0.1, 0.2, 0.0), (0.4, 0.0, 0.0), (0.4, 0.5, 0.0), (0.4, 3.0, 0.0), (0.4, 30.0, 0.0),
        (0.1, 0.1, 2.0),
    ],
    ids=[
        "cheap validation", "fair validation", "one epoch", "one epoch, fair validation", "dear validation",
        "hopeless validation", "dear scores",
    ],
)  # fmt: skip
def test_the_plan_fits_the_time_budget(
    trainer: MakeTrainer, monkeypatch: pytest.MonkeyPatch, step: float, evaluation: float, metrics: float
) -> None:
    budget = 20.0
    clock = Clock(monkeypatch, step=step, evaluation=evaluation, metrics=metrics)
    start = StartOfSteps(clock)
    made = trainer(TrainConfig(**{**QUICK, "epochs": 1000}, time_budget=budget), num_train=300, callback=start)
    history = made.fit()
    spent = clock.now - start.at
    if evaluation < budget:
        assert 0.55 * budget < spent <= 0.92 * budget, "the rest is left for what a real clock adds"
    else:
        assert len(history) == 1, "what cannot be had in the time is done once"


def test_an_evaluation_builds_no_tables(trainer: MakeTrainer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of thousands of classes they would take longer than the steps; metrics.jsonl holds single numbers only."""
    evaluate, asked = Classification.evaluate, []

    def noted(*arguments: Any, **options: Any) -> Any:
        asked.append(options)
        return evaluate(*arguments, **options)

    monkeypatch.setattr(Classification, "evaluate", noted)
    history = trainer(TrainConfig(**QUICK)).fit()
    assert asked == [{"tables": False}] * len(history)
    metrics = {
        "accuracy",
        "macro_f1",
        "balanced_accuracy",
        "matthews",
        "log_loss",
        "roc_auc",
        "calibration_error",
        "loss",
    }
    assert {key for key in history[-1] if key.startswith("val_")} == {f"val_{name}" for name in metrics}


@pytest.mark.parametrize("spoil", ["a folder in its place", "removed"])
def test_a_history_that_cannot_be_written_is_reported(trainer: MakeTrainer, run_folder: Path, spoil: str) -> None:
    class Spoiler(Callback):
        def started(self, step: int, total_steps: int) -> None:
            (run_folder / HISTORY).unlink()
            if spoil == "removed":
                shutil.rmtree(run_folder)
            else:
                (run_folder / HISTORY).mkdir()

    made = trainer(TrainConfig(**QUICK), folder=run_folder, callback=Spoiler())
    with pytest.raises(StorageError, match=rf"{HISTORY}: could not be written: (Is a directory|No such file)"):
        made.fit()


def test_a_budget_that_is_not_needed_changes_nothing(trainer: MakeTrainer, monkeypatch: pytest.MonkeyPatch) -> None:
    Clock(monkeypatch, step=0.01, evaluation=0.01)
    free, bound = trainer(TrainConfig(**QUICK)), trainer(TrainConfig(**QUICK, time_budget=1000))
    assert free.fit() == bound.fit()
    assert weights_of(free) == weights_of(bound)


def test_class_weights_and_smoothing_reach_the_loss(trainer: MakeTrainer) -> None:
    plain, other = (
        trainer(TrainConfig(**{**QUICK, "loss": loss}))
        for loss in (LossConfig(label_smoothing=0), LossConfig(label_smoothing=0.1, class_weights="balanced"))
    )
    plain.fit()
    other.fit()
    assert weights_of(plain) != weights_of(other)


@pytest.mark.parametrize(("fraction", "moved"), [(None, 0.1), (1.0, 0.1), (0.3, 0.03), (0.0, 0.0)])
def test_the_table_has_a_rate_of_its_own(fraction: float | None, moved: float, trainer: Callable[..., Trainer]) -> None:
    """AdamW's first step moves every weight that has a gradient by the rate."""
    optim = OptimConfig(lr=0.1, embedding_lr=fraction, weight_decay=0, warmup=0, clip_norm=None)
    made = trainer(TrainConfig(optim=optim, epochs=1), dropout=0.0)
    before = {name: value.detach().clone() for name, value in made.model.named_parameters()}
    made._step(made._plan(), Interrupts(enabled=False))
    steps = {name: (value - before[name]).abs().max().item() for name, value in made.model.named_parameters()}
    assert steps["embedding.weight"] == pytest.approx(moved, rel=1e-2, abs=1e-9)
    assert steps["head.output.weight"] == pytest.approx(0.1, rel=1e-2)


def test_evaluations_during_training_are_of_fewer_texts_where_these_are_long(
    trainer: MakeTrainer, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = trainer(TrainConfig(epochs=1), num_validation=30).data
    assert isinstance(data, LabeledData)
    assert data.num_evaluated == 30
    limits = {"_EVALUATED_WORDS": int(data.validation.lengths.sum()) // 3 + 1, "_MIN_EVALUATED": 4}
    for name, value in limits.items():
        monkeypatch.setattr(f"mixling.training.dataset_adapter.{name}", value)
    assert replace(data).num_evaluated == 10
    monkeypatch.setattr("mixling.training.dataset_adapter._MIN_EVALUATED", 25)
    assert replace(data).num_evaluated == 25


@pytest.mark.parametrize("tagged", [False, True])
def test_evaluations_during_training_are_of_a_bounded_sample(
    trainer: MakeTrainer, monkeypatch: pytest.MonkeyPatch, tagged: bool
) -> None:
    data = trainer(TrainConfig(epochs=1), num_validation=30, tagged=tagged).data
    assert isinstance(data, LabeledData)
    model = trainer(TrainConfig(epochs=1), num_validation=30, tagged=tagged).model

    network = TorchNetwork(model)
    full, _ = data.evaluate(network)
    monkeypatch.setattr("mixling.training.dataset_adapter.MAX_EVALUATED", 20)
    sampled = replace(data)
    numbers, loss = sampled.evaluate(network)
    chosen = sampled._evaluated
    assert chosen is not None
    assert len(set(chosen.tolist())) == 20
    assert (numbers, loss) == sampled.evaluate(network)
    examples = data.validation.dataset.subset(chosen)
    targets = data.validation_task.targets(examples.targets)
    alone = replace(data, validation=TextSet(examples, data.validation.encoder), validation_targets=targets)
    expected, expected_loss = alone.evaluate(network)
    assert numbers == pytest.approx(expected)
    assert loss == pytest.approx(expected_loss)
    assert numbers != pytest.approx(full)
