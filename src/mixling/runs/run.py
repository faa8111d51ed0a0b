"""The course of every run: begin in its folder, build, train, save, evaluate, finish."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar, Unpack

from mixling.artifacts.artifact import KINDS, resume_command
from mixling.artifacts.files import CARD_FILE, CURVES_FILE, METRICS_FILE, REFIT_FOLDER
from mixling.artifacts.weights import write_model
from mixling.config import Config
from mixling.errors import ConfigError
from mixling.export.plots import training_curves
from mixling.runs.parts import Parts, RunArguments, Stage
from mixling.runs.plots import Curves, if_possible
from mixling.runs.record import begin_run, beginning, finish_run, open_run
from mixling.runs.refit import refit
from mixling.runtime.quick import ONNX_FILE
from mixling.storage import write_atomic, write_sealed
from mixling.training.callbacks import Callback, CallbackList, Log
from mixling.training.distributed import DistributedContext
from mixling.training.files import CHECKPOINT
from mixling.training.loop import Trainer
from mixling.training.state import restore_weights, weights_of
from mixling.training.tracking import track_model

_M = TypeVar("_M")


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


def execute(
    kind: str, config: Config, prepare: Callable[[Stage], Parts[_M]], **arguments: Unpack[RunArguments]
) -> Run[_M] | None:
    """Begin or resume a run in a folder, train, save, evaluate and finish it.

    Args:
        kind: a key of `mixling.artifacts.artifact.KINDS`.
        config: resolved; to resume a run, the configuration of its record.
        prepare: makes the parts.

    Returns:
        The run; None in processes other than the main one.
    """
    if "folder" not in arguments:
        raise ConfigError("no folder; name where the run is written: folder=Path('model')")
    course = _Course(kind, config, **arguments)
    with open_run(course.home, resume=course.resume, distributed=course.distributed, command=course.command) as folder:
        parts = course.prepare(folder, prepare)
        history, chosen = course.train(folder, parts)
        if not course.distributed.is_main:
            return None
        metrics, report = _save(kind, parts, folder, history, chosen, course.log)
        track_model(parts.training.track, folder, folder / ONNX_FILE, course.log)
        finish_run(folder, config, kind=kind)
    return Run(folder=course.home, metrics=metrics, history=history, report=report)


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
        folder: Path,
        resume: bool = False,
        distributed: DistributedContext | None = None,
        callback: Callback | None = None,
        log: Log = lambda message: None,
    ) -> None:
        self.kind, self.config, self.home, self.resume = kind, config, folder, resume
        self.distributed, self.callback, self.log = distributed or DistributedContext(), callback, log
        self.command = resume_command(KINDS[kind], config.to_dict(), self.home)
        self._recorded = self.resume or not self.distributed.is_main

    def _begun(self, folder: Path) -> bool:
        return self.resume and (folder / CHECKPOINT).exists()

    def prepare(self, folder: Path, make: Callable[[Stage], Parts[_M]]) -> Parts[_M]:
        """Make the parts, and record that the run begins."""
        is_main = self.distributed.is_main
        with beginning(folder, resume=self.resume, is_main=is_main) as first:
            stage = Stage(
                home=self.home, folder=folder, first=first, resume=self.resume, begun=self._begun(folder),
                distributed=self.distributed, begin=lambda: self._begin(folder, first), log=self.log,
            )  # fmt: skip
            parts = make(stage)
            self.distributed.barrier()  # until the others have read the files that are moved next
        self._begin(folder, first)
        if is_main:
            parts.begin(folder)
        return parts

    def _begin(self, folder: Path, first: Path) -> None:
        if not self._recorded:
            begin_run(folder, self.config, kind=self.kind, first=first)
            self._recorded = True

    def train(self, folder: Path, parts: Parts[_M]) -> tuple[list[dict[str, Any]], _Chosen[_M] | None]:
        """Train the model, once more if there are `all_examples`; return the history of the first training."""
        again = parts.all_examples()
        initial = {} if again is None else weights_of(parts.model)
        fingerprint = _fingerprint(self.config, KINDS[self.kind].data_keys, parts.content())
        callback, is_main = self.callback, self.distributed.is_main
        if is_main:
            callback = CallbackList(callback or Callback(), Curves(folder, self.log))
        trainer = Trainer(
            parts.model, parts.data, parts.training,
            folder=folder,
            command=self.command,
            fingerprint=fingerprint,
            distributed=self.distributed,
            callback=callback,
            log=self.log,
        )  # fmt: skip
        history = trainer.fit(resume=self._begun(folder))
        if again is None:
            return history, None
        parts.model.cpu()
        best, found, matters = best_evaluation(history), None, True
        if is_main:
            trained = weights_of(parts.model)
            parts.calibrate()
            (folder / REFIT_FOLDER).mkdir(exist_ok=True)
            found = parts.evaluate(folder / REFIT_FOLDER, best, self.log)
            restore_weights(parts.model, trained)  # not calibrated: that is done before they are saved
            matters = parts.refit_matters()
        if not self.distributed.broadcast([matters])[0]:
            return history, None
        refitted = refit(
            parts, again,
            initial=initial, first=trainer, step=best["step"],
            folder=folder, fingerprint=fingerprint, command=self.command, distributed=self.distributed,
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
        # What was measured on the validation examples is of the model that did not see them.
        own |= {key: chosen.report[key] for key in ("validation", "quantization") if key in chosen.report}
        metrics, own = chosen.metrics, {**own, "refit": chosen.refit}
    at = {key: best[key] for key in ("epoch", "step", "train_loss", "val_loss")}
    report = {"best": at, "parameters": parameters, **own}
    write_sealed(folder / METRICS_FILE, report)
    exported = report.get("validation")
    if if_possible(lambda: training_curves(history, folder / CURVES_FILE, exported=exported), log):
        parts.draw(folder, metrics)
    write_atomic(folder / CARD_FILE, parts.card(report))
    return metrics, report


def _fingerprint(config: Config, data_keys: frozenset[str], content: Iterable[bytes]) -> str:
    """Return a hash of configuration and data, independent of paths, that ties a checkpoint to its run."""
    exclude: dict[str, Any] = dict.fromkeys(data_keys, True)
    values = config.model_dump(mode="json", exclude={**exclude, "train": {"checkpoint_seconds", "track"}})
    out = hashlib.sha256(json.dumps(values, sort_keys=True).encode())
    for part in content:
        out.update(part)
    return out.hexdigest()
