"""A run in its folder: begun, trained, perhaps trained again, saved and finished.

Each kind of run is a function that calls these steps from top to bottom: `mixling.runs.training.fit`, and others in
`mixling.research.pretraining.run` and `mixling.research`.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, Required, TypedDict, TypeVar, Unpack

import numpy.typing as npt

from mixling.artifacts.files import CARD_FILE, CURVES_FILE, METRICS_FILE, REFIT_FOLDER
from mixling.artifacts.kinds import kind_named
from mixling.artifacts.weights import write_model
from mixling.config import Config
from mixling.errors import ConfigError
from mixling.export.plots import training_curves
from mixling.networks.network import TextNetwork
from mixling.runs.plots import Curves, if_possible
from mixling.runs.record import begin_run, beginning, finish_run, open_run
from mixling.storage import write_atomic, write_sealed
from mixling.training.backends.context import DistributedContext
from mixling.training.callbacks import Callback, CallbackList, Log
from mixling.training.config import TrainConfig
from mixling.training.dataset_adapter import TrainingData
from mixling.training.files import CHECKPOINT
from mixling.training.loop import Trainer

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


class RunArguments(TypedDict, total=False):
    """The keyword arguments of every run, besides its configuration and data.

    folder: the run folder; a model in it is kept until the new one is finished. resume: continue from the folder's
    checkpoint. distributed: this process among all; by default the only one. callback: called during training. log:
    receives messages. started: when the time budget began, as `time.monotonic` has it; by default when the run opens.
    tested: the number of texts that the finished model is tested on, within the time budget.
    """

    folder: Required[Path]
    resume: bool
    distributed: DistributedContext | None
    callback: Callback | None
    log: Log
    started: float
    tested: int


class RunFolder:
    """A run in its folder. The steps, in this order: `open`, `preparing`, `train`, `train_again`, `save`, `finish`.

    Attributes:
        home: the run folder as the user named it.
        folder: where files go: `home`, or a folder in it while that holds a model to replace.
        first: while the run is prepared, where files go before it is known that it can begin; `folder` if resumed.
        resume: whether the run is resumed.
        distributed: this process among all.
        log: receives messages.
        started: when the time budget began, as `time.monotonic` has it.
        tested: the number of texts that the finished model is tested on, within the time budget.
    """

    folder: Path
    first: Path

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
        started: float | None = None,
        tested: int = 0,
    ) -> None:
        self.started = time.monotonic() if started is None else started
        self.tested = tested
        self.home = folder
        self.resume = resume
        self.distributed = distributed or DistributedContext()
        self.log = log
        self._kind = kind
        self._config = config
        self._callback = callback
        self._command = kind_named(kind).resume_command(folder, distills=getattr(config, "distill", None) is not None)
        self._recorded = resume or not self.is_main
        self._fingerprint = ""
        self._history: list[dict[str, Any]] = []

    @classmethod
    @contextlib.contextmanager
    def open(cls, kind: str, config: Config, **arguments: Unpack[RunArguments]) -> Iterator[RunFolder]:
        """Lock a folder for a run, and let the run replace an older model there when it is finished.

        Args:
            kind: the name of a `mixling.artifacts.kinds.RunKind`.
            config: resolved; to resume a run, the configuration of its record.

        Raises:
            UserError: see `open_run`.
        """
        if "folder" not in arguments:
            raise ConfigError("no folder; name where the run is written: folder=Path('model')")
        run = cls(kind, config, **arguments)
        with open_run(run.home, resume=run.resume, distributed=run.distributed, command=run._command) as run.folder:
            yield run

    @property
    def is_main(self) -> bool:
        """Whether this is the process that writes files."""
        return self.distributed.is_main

    @property
    def begun(self) -> bool:
        """Whether there is a checkpoint to resume from."""
        return self.resume and (self.folder / CHECKPOINT).exists()

    @contextlib.contextmanager
    def preparing(self) -> Iterator[None]:
        """Prepare model and data in this block; the run begins after it, and leaves no file if it fails."""
        with beginning(self.folder, resume=self.resume, is_main=self.is_main) as self.first:
            yield
            self.distributed.barrier()  # until the others have read the files that are moved next
        self.begin()

    def begin(self) -> None:
        """Record that the run begins; early, before slow preparations, so that it can be resumed after these."""
        if not self._recorded:
            begin_run(self.folder, self._config, kind=self._kind, first=self.first)
            self._recorded = True

    def in_turn(self, make: Callable[[], _T]) -> _T:
        """Call `make` in the main process first, then in the others, which find its files; return the result."""
        if not self.is_main:
            self.distributed.barrier()
        result = make()
        if self.is_main:
            self.distributed.barrier()
        return result

    def train(
        self,
        model: Any,
        data: TrainingData,
        training: TrainConfig,
        *,
        content: Iterable[bytes],
        later: int = 0,
        evaluate: bool = True,
    ) -> Trainer:
        """Train the model, or continue from the checkpoint; the model then has the weights of the best evaluation.

        Args:
            model: a `TextNetwork`, or a model of PyTorch.
            training: with values that depend on the data resolved.
            content: of the data, as part of the fingerprint that ties a checkpoint to its run.
            later: the number of texts that are predicted after the training, within its time budget.
            evaluate: whether there are evaluations; without them the model has its last weights, see `record`.

        Returns:
            What trained it, which knows the number of steps.
        """
        self._fingerprint = _fingerprint(self._config, kind_named(self._kind).data_keys, content)
        callback = self._callback
        if self.is_main:
            callback = CallbackList(callback or Callback(), Curves(self.folder))
        last = None
        seconds = training.time_budget
        if not evaluate:
            last = training.steps or training.planned_epochs(len(data)) * math.ceil(len(data) / training.batch_size)
            training = training.model_copy(update={"steps": last, "time_budget": None, "patience": None})
        trainer = Trainer(
            model,
            data,
            training,
            folder=self.folder,
            command=self._command,
            fingerprint=self._fingerprint,
            distributed=self.distributed,
            callback=callback,
            last_step=last,
            seconds=seconds,
            later=later,
            log=self.log,
        )
        self._history = trainer.fit(resume=self.begun)
        return trainer

    @property
    def evaluated(self) -> bool:
        """Whether a model was evaluated during its training."""
        return bool(self._history)

    def record(self, loss: float, trainer: Trainer | None) -> None:
        """Record the loss of a model that was not evaluated during its training, or had none: n-grams alone."""
        step = 0 if trainer is None or trainer.last_step is None else trainer.last_step
        epoch = 0 if trainer is None else round(step / trainer.steps_per_epoch, 3)
        self._history = [{"epoch": epoch, "step": step, "train_loss": None, "val_loss": loss, "best": True}]

    def train_again(
        self,
        model: TextNetwork,
        data: TrainingData,
        first: Trainer,
        *,
        initial: Mapping[str, npt.NDArray[Any]],
        seconds: float | None = None,
    ) -> dict[str, Any]:
        """Train the model anew on other data, for as many epochs as were best; or continue this training.

        Args:
            data: all labeled examples, including validation's.
            first: what trained it on the training examples; the learning rate is the same in each epoch.
            initial: the initial weights of the model.
            seconds: for this training.

        Returns:
            The entry "refit" of metrics.json.
        """
        model.restore(initial)
        per_epoch = math.ceil(len(data) / first.config.batch_size)
        best = best_evaluation(self._history)["step"]
        # The same epochs, not the same steps: with few examples an epoch more or less matters.
        steps = max(1, round(best / first.steps_per_epoch * per_epoch))
        total_steps = max(steps, round(first.total_steps / first.steps_per_epoch * per_epoch))
        self.log(f"refit: {len(data):,} examples, including validation's, {steps / per_epoch:.3g} epochs")
        changes = {"steps": total_steps, "time_budget": None, "patience": None, "track": ()}
        location = self.folder / REFIT_FOLDER
        trainer = Trainer(
            model,
            data,
            first.config.model_copy(update=changes),
            folder=location,
            command=self._command,
            fingerprint=f"{self._fingerprint} refit",
            distributed=self.distributed,
            callback=self._callback,
            last_step=steps,
            seconds=seconds,
        )
        trainer.fit(resume=self.distributed.broadcast([(location / CHECKPOINT).exists()])[0] > 0)
        return {"examples": len(data), "steps": trainer.last_step}

    @property
    def best(self) -> dict[str, Any]:
        """The record of the best evaluation of the first training."""
        return best_evaluation(self._history)

    def save(self, weights: Mapping[str, npt.NDArray[Any]], values: Mapping[str, Any], *, parameters: int) -> None:
        """Write weights by name, and config.json with what else is needed to build the model."""
        write_model(self.folder, weights, {"kind": self._kind, "parameters": parameters, **values})

    def finish(
        self,
        metrics: _M,
        report: Mapping[str, Any],
        *,
        parameters: int,
        card: Callable[[dict[str, Any]], str],
        draw: Callable[[Path], None] = lambda folder: None,
    ) -> Run[_M]:
        """Write metrics, plots and card of the saved model, and record that the run is finished.

        Args:
            metrics: validation metrics of the saved model.
            report: the entries of metrics.json that are specific to the kind of run.
            card: returns the model card, given the content of metrics.json.
            draw: draws plots besides the training curves into a folder.
        """
        at = {key: self.best[key] for key in ("epoch", "step", "train_loss", "val_loss")}
        whole = {"best": at, "parameters": parameters, **report}
        write_sealed(self.folder / METRICS_FILE, whole)
        curves = self.folder / CURVES_FILE
        exported = whole.get("validation")

        def plot() -> None:
            if self.best["train_loss"] is not None:
                training_curves(self._history, curves, exported=exported)
            draw(self.folder)

        if_possible(plot, self.log)
        write_atomic(self.folder / CARD_FILE, card(whole))
        finish_run(self.folder, self._config, kind=self._kind)
        return Run(folder=self.home, metrics=metrics, history=self._history, report=whole)


def _fingerprint(config: Config, data_keys: frozenset[str], content: Iterable[bytes]) -> str:
    """Return a hash of configuration and data, independent of paths, that ties a checkpoint to its run."""
    exclude: dict[str, Any] = dict.fromkeys(data_keys, True)
    values = config.model_dump(mode="json", exclude={**exclude, "train": {"checkpoint_seconds", "track"}})
    out = hashlib.sha256(json.dumps(values, sort_keys=True).encode())
    for part in content:
        out.update(part)
    return out.hexdigest()
