"""A run of any kind, once: it begins in its folder, builds, trains, saves, evaluates and finishes."""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from torch import nn

from mixling.config import Config
from mixling.errors import command_line
from mixling.export.plots import training_curves
from mixling.models.model import count_parameters
from mixling.runs.artifact import CARD_FILE, CURVES_FILE, KINDS, METRICS_FILE
from mixling.runs.pictures import Curves, if_possible
from mixling.runs.record import begin_run, beginning, finish_run, open_run
from mixling.runs.weights import write_model
from mixling.storage import write_atomic, write_sealed
from mixling.training.callbacks import Callback, CallbackList
from mixling.training.config import TrainConfig
from mixling.training.dataset_adapter import TrainingData
from mixling.training.distributed import DistributedContext
from mixling.training.files import CHECKPOINT
from mixling.training.loop import Trainer

M = TypeVar("M")
T = TypeVar("T")
Log = Callable[[str], None]


@dataclass(frozen=True, kw_only=True)
class Run(Generic[M]):
    """A finished run.

    Attributes:
        folder: the folder that it wrote.
        metrics: of the saved model on validation data.
        history: the records of all evaluations, as metrics.jsonl holds them.
        report: the content of metrics.json.
    """

    folder: Path
    metrics: M
    history: list[dict[str, Any]]
    report: dict[str, Any]

    @property
    def parameters(self) -> int:
        """The number of the saved model's parameters."""
        return int(self.report["parameters"])

    @property
    def best(self) -> dict[str, Any]:
        """The record of the evaluation whose weights were saved."""
        return best_evaluation(self.history)


def best_evaluation(history: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the record of the best evaluation of a training."""
    return next(record for record in reversed(history) if record["best"])


@dataclass(frozen=True, kw_only=True)
class Stage:
    """Where and how the parts of a run are made.

    Attributes:
        home: the folder of the run as the user names it.
        folder: where its files go: `home`, or a folder in it while that holds a model to replace.
        first: where files go before it is known that the run can begin; `folder`, if it is resumed.
        resume: the run began before.
        begun: it has a checkpoint to resume from.
        begin: records the run now, not only after its parts are made: an interruption then finds a run to resume.
    """

    home: Path
    folder: Path
    first: Path
    resume: bool
    begun: bool
    distributed: DistributedContext
    begin: Callable[[], None]
    log: Log

    def in_turn(self, make: Callable[[], T]) -> T:
        """Return what `make` returns; the main process calls it first, the others when its files are there."""
        if not self.distributed.is_main:
            self.distributed.barrier()
        made = make()
        if self.distributed.is_main:
            self.distributed.barrier()
        return made


class Parts(ABC, Generic[M]):
    """What a kind of run is made of: a model, its data, and what saves and evaluates it.

    Attributes:
        model: with its initial weights.
        data: to train and validate on.
        training: how, with what the data decide.
    """

    model: nn.Module
    data: TrainingData
    training: TrainConfig

    @property
    def parameters(self) -> int:
        """The number of parameters that are saved for use."""
        return count_parameters(self.model)

    @abstractmethod
    def content(self) -> Iterable[bytes]:
        """Yield the content of the data, by which a checkpoint recognises its run."""

    def begin(self, folder: Path) -> None:  # most kinds need nothing
        """Write what an unfinished run needs beside its checkpoint."""

    @abstractmethod
    def save(self, folder: Path) -> dict[str, Any]:
        """Write the files beside the weights, and return the description of the model for config.json."""

    @abstractmethod
    def evaluate(self, folder: Path, best: dict[str, Any], log: Log) -> tuple[M, dict[str, Any]]:
        """Return the metrics of the model that was saved, and all that metrics.json has of this kind of run.

        Args:
            best: the record of the best evaluation.
        """

    @abstractmethod
    def card(self, report: dict[str, Any]) -> str:
        """Return the model card, given the content of metrics.json."""

    def draw(self, folder: Path, metrics: M) -> None:  # most kinds have the curves alone
        """Draw pictures beside the curves."""


def execute(
    kind: str,
    config: Config,
    prepare: Callable[[Stage], Parts[M]],
    *,
    elsewhere: frozenset[str],
    folder: Path,
    resume: bool,
    command: str | None = None,
    distributed: DistributedContext | None,
    callback: Callback | None,
    log: Log,
) -> Run[M] | None:
    """Begin a run in a folder or resume it there, train, save, evaluate and finish it.

    Args:
        kind: one of `mixling.runs.artifact.KINDS`.
        config: recorded as it is; of a resumed run that of its record.
        prepare: makes the parts.
        elsewhere: keys of the configuration that name data, which are recognised by their content.
        command: the subcommand that resumes the run; by default that of its kind.

    Returns:
        the run; None in processes other than the main one.
    """
    distributed = distributed or DistributedContext()
    resuming = command_line("mixling", command or KINDS[kind].command, "--resume", "-o", folder)
    with open_run(folder, resume=resume, distributed=distributed, command=resuming) as location:
        recorded = resume or not distributed.is_main

        def begin() -> None:
            nonlocal recorded
            if not recorded:
                begin_run(location, config, kind=kind, first=first)
                recorded = True

        begun = resume and (location / CHECKPOINT).exists()
        with beginning(location, resume=resume, is_main=distributed.is_main) as first:
            stage = Stage(
                home=folder, folder=location, first=first, resume=resume, begun=begun,
                distributed=distributed, begin=begin, log=log,
            )  # fmt: skip
            parts = prepare(stage)
            distributed.barrier()  # the others have read what is moved now
        begin()
        if distributed.is_main:
            parts.begin(location)
            callback = CallbackList(callback or Callback(), Curves(location, log))
        trainer = Trainer(
            parts.model, parts.data, parts.training,
            folder=location,
            command=resuming,
            fingerprint=_fingerprint(config, elsewhere, parts.content()),
            distributed=distributed,
            callback=callback,
        )  # fmt: skip
        history = trainer.fit(resume=begun)
        if not distributed.is_main:
            return None
        parts.model.cpu()
        metrics, report = _save(kind, parts, location, history, log)
        finish_run(location, config, kind=kind)
    return Run(folder=folder, metrics=metrics, history=history, report=report)


def _save(
    kind: str, parts: Parts[M], folder: Path, history: list[dict[str, Any]], log: Log
) -> tuple[M, dict[str, Any]]:
    """Write all files of a trained model but the record of its run; what is evaluated is what was saved."""
    best, parameters = best_evaluation(history), parts.parameters
    write_model(folder, parts.model, {"kind": kind, "parameters": parameters, **parts.save(folder)})
    metrics, own = parts.evaluate(folder, best, log)
    at = {key: best[key] for key in ("epoch", "step", "train_loss", "val_loss")}
    report = {"best": at, "parameters": parameters, **own}
    write_sealed(folder / METRICS_FILE, report)
    if if_possible(lambda: training_curves(history, folder / CURVES_FILE), log):
        parts.draw(folder, metrics)
    write_atomic(folder / CARD_FILE, parts.card(report))
    return metrics, report


def _fingerprint(config: Config, elsewhere: frozenset[str], content: Iterable[bytes]) -> str:
    """Return what identifies a checkpoint's run: its configuration and its data, not where files are."""
    exclude: dict[str, Any] = dict.fromkeys(elsewhere, True)
    values = config.model_dump(mode="json", exclude={**exclude, "train": {"checkpoint_seconds", "track"}})
    out = hashlib.sha256(json.dumps(values, sort_keys=True).encode())
    for part in content:
        out.update(part)
    return out.hexdigest()
