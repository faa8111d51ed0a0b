"""Send the course of a training to trackers: TensorBoard, trackio, Weights & Biases, MLflow; several at once.

A tracker works in a thread of its own. If it raises, or does not answer, that is logged once and the training
continues without it: everything is in metrics.jsonl as well.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import queue
import threading
import time
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from mixling.errors import MissingPackage
from mixling.folders import remove
from mixling.installation import install_command
from mixling.storage import write_json
from mixling.training.callbacks import Callback, CallbackList, Log, Step
from mixling.training.files import TENSORBOARD_FOLDER, TRACKING_FILE

_PROJECT = "mixling"
_PATIENCE = 60.0  # seconds that the end of a training waits for a tracker; MLflow needs many to create its tables
_WAITING = 10_000  # calls that may wait for a tracker


def remove_tracking(folder: Path) -> None:
    """Remove the event files of an older run in a folder, and its ids.

    Raises:
        StorageError: a file cannot be removed.
    """
    for path in (folder / TENSORBOARD_FOLDER).glob("events.out.tfevents.*"):
        remove(path)
    remove(folder / TRACKING_FILE)


class Tracker(ABC):
    """A program that shows the course of trainings; all methods may raise anything.

    Args:
        folder: the run folder.
    """

    package: str

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @abstractmethod
    def open(self, step: int, config: Mapping[str, Any]) -> None:
        """Begin a run, or after `step` steps continue it."""

    @abstractmethod
    def write(self, values: Mapping[str, float], step: int) -> None:
        """Store metrics of a step."""

    @abstractmethod
    def close(self) -> None:
        """End the run."""

    def identity(self, name: str) -> str:
        """Return the id of this run in a tracker: the stored one, else a new one, which is stored."""
        path = self.folder / TRACKING_FILE
        stored = json.loads(path.read_bytes()) if path.exists() else {}
        if name not in stored:
            stored[name] = f"{self.folder.resolve().name}-{uuid.uuid4().hex[:8]}"
            write_json(path, stored)
        return str(stored[name])

    def store_identity(self, name: str, identity: str) -> None:
        """Store an id that the tracker chose."""
        path = self.folder / TRACKING_FILE
        stored = json.loads(path.read_bytes()) if path.exists() else {}
        write_json(path, {**stored, name: identity})


class TensorBoard(Tracker):
    """Writes DIR/tensorboard; after a resumption, points behind the last checkpoint are hidden."""

    package = "tensorboard"

    def open(self, step: int, config: Mapping[str, Any]) -> None:
        from torch.utils.tensorboard import SummaryWriter

        # Flush about as often as checkpoints are written, since a kill loses what was not flushed.
        location = str(self.folder / TENSORBOARD_FOLDER)
        self._writer = SummaryWriter(location, purge_step=step + 1 if step else None, flush_secs=10)

    def write(self, values: Mapping[str, float], step: int) -> None:
        for name, value in values.items():
            self._writer.add_scalar(name, value, step)
        if any(name.startswith("val/") for name in values):
            self._writer.flush()

    def close(self) -> None:
        self._writer.close()


class _WandbLike(Tracker):
    """A tracker with the interface of wandb; the project is named by WANDB_PROJECT or TRACKIO_PROJECT, or `mixling`."""

    def _init(self, module: Any, project: str, identity: str, step: int, config: Mapping[str, Any]) -> Any:
        raise NotImplementedError

    def open(self, step: int, config: Mapping[str, Any]) -> None:
        module = importlib.import_module(self.package)
        project = os.environ.get(f"{self.package.upper()}_PROJECT")
        self._run = self._init(module, project or _PROJECT, self.identity(self.package), step, config)

    def write(self, values: Mapping[str, float], step: int) -> None:
        self._run.log(dict(values), step=step)

    def close(self) -> None:
        self._run.finish()


class Wandb(_WandbLike):
    """Weights & Biases."""

    package = "wandb"

    def _init(self, module: Any, project: str, identity: str, step: int, config: Mapping[str, Any]) -> Any:
        return module.init(
            project=project, id=identity, name=identity, dir=str(self.folder), config=dict(config), resume="allow"
        )


class Trackio(_WandbLike):
    """trackio, which stores runs on this machine."""

    package = "trackio"

    def _init(self, module: Any, project: str, identity: str, step: int, config: Mapping[str, Any]) -> Any:
        return module.init(
            project=project, name=identity, config=dict(config), resume="allow", embed=False,
            auto_log_gpu=False, auto_log_cpu=False,
        )  # fmt: skip


class Mlflow(Tracker):
    """MLflow, at MLFLOW_TRACKING_URI; the experiment is MLFLOW_EXPERIMENT_NAME or `mixling`."""

    package = "mlflow"

    def open(self, step: int, config: Mapping[str, Any]) -> None:
        import mlflow
        from mlflow.entities import Param

        self._client = mlflow.MlflowClient()
        path = self.folder / TRACKING_FILE
        self._id: str = json.loads(path.read_bytes()).get(self.package, "") if path.exists() else ""
        if self._id:
            self._client.update_run(self._id, "RUNNING")
            return
        name = os.environ.get("MLFLOW_EXPERIMENT_NAME", _PROJECT)
        experiment = self._client.get_experiment_by_name(name)
        number = self._client.create_experiment(name) if experiment is None else experiment.experiment_id
        self._id = self._client.create_run(number, run_name=self.folder.resolve().name).info.run_id
        self.store_identity(self.package, self._id)
        params = [Param(key, str(value)[:500]) for key, value in config.items()]
        for first in range(0, len(params), 100):  # more are refused
            self._client.log_batch(self._id, params=params[first : first + 100])

    def write(self, values: Mapping[str, float], step: int) -> None:
        from mlflow.entities import Metric

        now = time.time_ns() // 1_000_000
        self._client.log_batch(self._id, [Metric(name, value, now, step) for name, value in values.items()])

    def close(self) -> None:
        self._client.set_terminated(self._id)


TRACKERS: dict[str, type[Tracker]] = {kind.package: kind for kind in (TensorBoard, Trackio, Wandb, Mlflow)}


class Guard:
    """Calls functions one after another in a thread, until one raises or does not return in time.

    Args:
        name: of the called function, for messages.
        log: receives one message about a failure.
    """

    def __init__(self, name: str, log: Log) -> None:
        self._name = name
        self._log = log
        self._calls: queue.Queue[Callable[[], None] | None] = queue.Queue(_WAITING)
        self._failed = False
        self._thread = threading.Thread(target=self._work, name=f"tracking by {name}", daemon=True)
        self._thread.start()

    def post(self, call: Callable[[], None] | None) -> None:
        """Append a call, unless an earlier one has failed; None ends the thread."""
        if not self._failed:
            try:
                self._calls.put_nowait(call)
            except queue.Full:
                self._fail("does not answer")

    def finish(self, seconds: float = _PATIENCE) -> None:
        """Wait for all calls, but not longer than this."""
        self.post(None)
        if self._failed:
            return
        self._thread.join(seconds)
        if self._thread.is_alive():
            self._fail(f"does not answer after {seconds:g} s")

    def _work(self) -> None:
        while not self._failed and (call := self._calls.get()) is not None:
            try:
                call()
            except BaseException as error:  # some libraries raise SystemExit
                text = str(error).strip()
                self._fail(f"fails: {type(error).__name__}{f': {text.splitlines()[0]}' if text else ''}")

    def _fail(self, reason: str) -> None:
        if not self._failed:
            self._failed = True
            self._log(f"tracking by {self._name} {reason}; the run continues without it; metrics.jsonl has all metrics")


class Tracking(Callback):
    """Callback that sends train loss and learning rate every few steps, and the metrics of each evaluation.

    Args:
        tracker: receives them.
        config: the configuration of the run, by dotted keys.
        every: steps between two points.
        patience: seconds that the end of the training waits for the tracker.
    """

    def __init__(
        self, tracker: Tracker, *, config: Mapping[str, Any], log: Log, every: int = 10, patience: float = _PATIENCE
    ) -> None:
        self._tracker = tracker
        self._config = config
        self._every = every
        self._patience = patience
        self._guard = Guard(tracker.package, log)

    def started(self, step: int, total_steps: int) -> None:
        self._guard.post(lambda: self._tracker.open(step, self._config))

    def stepped(self, step: Step) -> None:
        if step.number % self._every == 0:
            self._write({"train/loss": step.loss, "train/learning_rate": step.learning_rate}, step.number)

    def evaluated(self, record: dict[str, Any]) -> None:
        values = {f"val/{key.removeprefix('val_')}": value for key, value in record.items() if key.startswith("val_")}
        self._write({**values, "train/mean_loss": record["train_loss"]}, record["step"])

    def finished(self) -> None:
        self._guard.post(self._tracker.close)
        self._guard.finish(self._patience)

    def _write(self, values: dict[str, float], step: int) -> None:
        self._guard.post(lambda: self._tracker.write(values, step))


def tracking(names: tuple[str, ...], folder: Path, *, config: Mapping[str, Any], log: Log) -> Callback:
    """Return a callback for several trackers, for a new run or one to continue.

    Raises:
        MissingPackage: the package of a tracker is not installed.
    """
    for name in names:
        if importlib.util.find_spec(name) is None:
            command = install_command("track") if name == "tensorboard" else f"pip install {name}"
            raise MissingPackage(f'train.track = "{name}" needs {name}; install it by {command}')
    return CallbackList(*(Tracking(TRACKERS[name](folder), config=config, log=log) for name in names))
