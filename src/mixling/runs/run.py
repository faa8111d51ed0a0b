"""The course of every run: begin in its folder, build, train, save, evaluate, finish."""

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
from mixling.runs.artifact import KINDS
from mixling.runs.files import CARD_FILE, CURVES_FILE, METRICS_FILE, REFIT_FOLDER
from mixling.runs.plots import Curves, if_possible
from mixling.runs.record import begin_run, beginning, finish_run, open_run
from mixling.runs.refit import refit
from mixling.runs.weights import write_model
from mixling.runtime.onnx_file import ONNX_FILE
from mixling.storage import write_atomic, write_sealed
from mixling.training.callbacks import Callback, CallbackList, Log
from mixling.training.config import TrainConfig
from mixling.training.dataset_adapter import TrainingData
from mixling.training.distributed import DistributedContext
from mixling.training.files import CHECKPOINT
from mixling.training.loop import Trainer
from mixling.training.state import weights_of
from mixling.training.tracking import track_model

_M = TypeVar("_M")
_T = TypeVar("_T")


@dataclass(frozen=True, kw_only=True)
class Run(Generic[_M]):
    """A finished run.

    Attributes:
        folder: the run folder.
        metrics: validation metrics of the saved model.
        history: the records of all evaluations, as metrics.jsonl holds them.
        report: the content of metrics.json.
    """

    folder: Path
    metrics: _M
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
    """Return the record of the best evaluation in a history."""
    return next(record for record in reversed(history) if record["best"])


@dataclass(frozen=True, kw_only=True)
class Stage:
    """The environment in which the parts of a run are made.

    Attributes:
        home: the run folder as the user named it.
        folder: where files go: `home`, or a folder in it while that holds a model to replace.
        first: where files go before it is known that the run can begin; `folder` if it is resumed.
        resume: whether the run is resumed.
        begun: whether there is a checkpoint to resume from.
        distributed: this process among all.
        begin: records the run early, before slow preparations, so that it can be resumed if they are interrupted.
        log: receives messages.
    """

    home: Path
    folder: Path
    first: Path
    resume: bool
    begun: bool
    distributed: DistributedContext
    begin: Callable[[], None]
    log: Log

    def in_turn(self, make: Callable[[], _T]) -> _T:
        """Call `make` in the main process first, then in the others, which find its files; return the result."""
        if not self.distributed.is_main:
            self.distributed.barrier()
        made = make()
        if self.distributed.is_main:
            self.distributed.barrier()
        return made


class Parts(ABC, Generic[_M]):
    """What differs between kinds of runs: the model, its data, and how it is saved and evaluated.

    Attributes:
        model: the model with its initial weights.
        data: the training and validation data.
        training: the configuration of the training, with values that depend on the data resolved.
    """

    model: nn.Module
    data: TrainingData
    training: TrainConfig

    def all_examples(self) -> TrainingData | None:
        """Return the data of a second training, including the validation examples; None: there is none."""
        return None

    @property
    def parameters(self) -> int:
        """The number of parameters, without those that only training needs."""
        return count_parameters(self.model)

    @abstractmethod
    def content(self) -> Iterable[bytes]:
        """Yield the content of the data, as part of the fingerprint that ties a checkpoint to its run."""

    def begin(self, folder: Path) -> None:  # optional
        """Write what is needed to use the checkpoint of an unfinished run."""

    @abstractmethod
    def save(self, folder: Path) -> dict[str, Any]:
        """Write the files besides the weights, and return the content of config.json."""

    def calibrate(self) -> None:  # optional
        """Change the trained weights so that the model's probabilities are calibrated.

        Called once for each trained model, before it is saved and evaluated. After a refit, the validation examples are
        no longer new to the model, so that what was fitted for the first model is used.
        """

    @abstractmethod
    def evaluate(self, folder: Path, best: dict[str, Any], log: Log) -> tuple[_M, dict[str, Any]]:
        """Return the metrics of the saved model, and the part of metrics.json that is specific to this kind of run.

        Args:
            best: the record of the best evaluation.
        """

    @abstractmethod
    def card(self, report: dict[str, Any]) -> str:
        """Return the model card, given the content of metrics.json."""

    def draw(self, folder: Path, metrics: _M) -> None:  # optional
        """Draw plots besides the training curves."""


def execute(
    kind: str,
    config: Config,
    prepare: Callable[[Stage], Parts[_M]],
    *,
    elsewhere: frozenset[str],
    folder: Path,
    resume: bool,
    command: str | None = None,
    distributed: DistributedContext | None,
    callback: Callback | None,
    log: Log,
) -> Run[_M] | None:
    """Begin or resume a run in a folder, train, save, evaluate and finish it.

    Args:
        kind: a key of `mixling.runs.artifact.KINDS`.
        config: resolved; to resume a run, the configuration of its record.
        prepare: makes the parts.
        elsewhere: keys of the configuration that name data, which is identified by its content instead.
        command: the subcommand that resumes the run; by default that of its kind.

    Returns:
        The run; None in processes other than the main one.
    """
    distributed = distributed or DistributedContext()
    resuming = command_line("mixling", command or KINDS[kind].command, "--resume", "-o", folder)
    with open_run(folder, resume=resume, distributed=distributed, command=resuming) as location:
        course = _Course(
            kind, config,
            home=folder, folder=location, resume=resume, command=resuming,
            distributed=distributed, callback=callback, log=log,
        )  # fmt: skip
        parts = course.prepare(prepare)
        history, chosen = course.train(parts, _fingerprint(config, elsewhere, parts.content()))
        if not distributed.is_main:
            return None
        metrics, report = _save(kind, parts, location, history, chosen, log)
        track_model(parts.training.track, location, location / ONNX_FILE, log)
        finish_run(location, config, kind=kind)
    return Run(folder=folder, metrics=metrics, history=history, report=report)


@dataclass(frozen=True)
class _Chosen(Generic[_M]):
    """The validation results of a first training, and the entry of metrics.json about the second one, the refit."""

    metrics: _M
    report: dict[str, Any]
    refit: dict[str, Any]


class _Course:
    """The steps of a run from its begin to the trained model; see `execute` and `Stage` for the arguments."""

    def __init__(
        self,
        kind: str,
        config: Config,
        *,
        home: Path,
        folder: Path,
        resume: bool,
        command: str,
        distributed: DistributedContext,
        callback: Callback | None,
        log: Log,
    ) -> None:
        self.kind, self.config, self.home, self.folder = kind, config, home, folder
        self.resume, self.command, self.distributed = resume, command, distributed
        self.callback, self.log = callback, log
        self.begun = resume and (folder / CHECKPOINT).exists()
        self._recorded = resume or not distributed.is_main

    def prepare(self, make: Callable[[Stage], Parts[_M]]) -> Parts[_M]:
        """Make the parts, and record that the run begins."""
        is_main = self.distributed.is_main
        with beginning(self.folder, resume=self.resume, is_main=is_main) as first:
            stage = Stage(
                home=self.home, folder=self.folder, first=first, resume=self.resume, begun=self.begun,
                distributed=self.distributed, begin=lambda: self._begin(first), log=self.log,
            )  # fmt: skip
            parts = make(stage)
            self.distributed.barrier()  # until the others have read the files that are moved next
        self._begin(first)
        if is_main:
            parts.begin(self.folder)
        return parts

    def _begin(self, first: Path) -> None:
        if not self._recorded:
            begin_run(self.folder, self.config, kind=self.kind, first=first)
            self._recorded = True

    def train(self, parts: Parts[_M], fingerprint: str) -> tuple[list[dict[str, Any]], _Chosen[_M] | None]:
        """Train the model, once more if there are `all_examples`; return the history of the first training."""
        again = parts.all_examples()
        initial = {} if again is None else weights_of(parts.model)
        callback, is_main = self.callback, self.distributed.is_main
        if is_main:
            callback = CallbackList(callback or Callback(), Curves(self.folder, self.log))
        trainer = Trainer(
            parts.model, parts.data, parts.training,
            folder=self.folder,
            command=self.command,
            fingerprint=fingerprint,
            distributed=self.distributed,
            callback=callback,
            log=self.log,
        )  # fmt: skip
        history = trainer.fit(resume=self.begun)
        if again is None:
            return history, None
        parts.model.cpu()
        best, found = best_evaluation(history), None
        if is_main:
            parts.calibrate()
            (self.folder / REFIT_FOLDER).mkdir(exist_ok=True)
            found = parts.evaluate(self.folder / REFIT_FOLDER, best, self.log)
        refitted = refit(
            parts, again,
            initial=initial, first=trainer, step=best["step"],
            folder=self.folder, fingerprint=fingerprint, command=self.command, distributed=self.distributed,
            callback=self.callback, log=self.log,
        )  # fmt: skip
        return history, None if found is None else _Chosen(*found, refitted)


def _save(
    kind: str,
    parts: Parts[_M],
    folder: Path,
    history: list[dict[str, Any]],
    chosen: _Chosen[_M] | None,
    log: Log,
) -> tuple[_M, dict[str, Any]]:
    """Calibrate a trained model, write all files except run.json, and evaluate the saved model.

    After a refit, the metrics are those of the first training.
    """
    parts.model.cpu()
    parts.calibrate()
    best, parameters = best_evaluation(history), parts.parameters
    write_model(folder, parts.model, {"kind": kind, "parameters": parameters, **parts.save(folder)})
    metrics, own = parts.evaluate(folder, best, log)
    if chosen is not None:
        metrics, own = chosen.metrics, {**own, "validation": chosen.report["validation"], "refit": chosen.refit}
    at = {key: best[key] for key in ("epoch", "step", "train_loss", "val_loss")}
    report = {"best": at, "parameters": parameters, **own}
    write_sealed(folder / METRICS_FILE, report)
    if if_possible(lambda: training_curves(history, folder / CURVES_FILE), log):
        parts.draw(folder, metrics)
    write_atomic(folder / CARD_FILE, parts.card(report))
    return metrics, report


def _fingerprint(config: Config, elsewhere: frozenset[str], content: Iterable[bytes]) -> str:
    """Return a hash of configuration and data, independent of paths, that ties a checkpoint to its run."""
    exclude: dict[str, Any] = dict.fromkeys(elsewhere, True)
    values = config.model_dump(mode="json", exclude={**exclude, "train": {"checkpoint_seconds", "track"}})
    out = hashlib.sha256(json.dumps(values, sort_keys=True).encode())
    for part in content:
        out.update(part)
    return out.hexdigest()
