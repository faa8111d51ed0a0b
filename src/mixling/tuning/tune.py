"""Search: train trials in worker processes, store them, and train the best configuration again."""

from __future__ import annotations

import contextlib
import hashlib
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import Field

from mixling.artifacts.files import RUN_FILE, folder_to_resume
from mixling.config import Config, nested, parse
from mixling.data.dataset import Dataset
from mixling.errors import ConfigError, StorageError, TrainingError
from mixling.metrics.base import LESS_IS_BETTER, Metrics
from mixling.runs.resolve.config import RunConfig, resumed_config
from mixling.runs.run import Run
from mixling.runs.training import fit
from mixling.storage import read_json, write_sealed
from mixling.tasks import task_type
from mixling.threads import limited_threads
from mixling.training.callbacks import Callback, Log
from mixling.training.files import CHECKPOINT
from mixling.tuning.space import Dimension, Value
from mixling.tuning.study import Result, Studies, best
from mixling.tuning.worker import Failed, Job, Trained, work
from mixling.workers import Worker, WorkerEnded, end_workers, wait_for

PLAN_FILE = "tune.json"
JOURNAL_FILE = "journal.log"
TRIALS_FOLDER = "trials"
BEST_FOLDER = "best"
DEFAULT = "default"  # the folder of the default configuration
_MOST_FAILED = 3  # first trials that fail, all of them, before the search is given up


class Plan(Config):
    """What a search does, as recorded in its folder.

    `bases` are the resolved configurations of the models, `spaces` the changes to them.
    """

    bases: dict[str, RunConfig]
    spaces: dict[str, dict[str, Dimension]]
    trials: int | None = Field(default=None, ge=1, description="of each model; None: as many as the time allows")
    time_budget: float | None = Field(default=None, gt=0, description="seconds for all trials")
    seed: int = Field(default=0, ge=0, lt=2**32)
    jobs: int = Field(default=1, ge=1, le=256, description="trials that are trained at the same time")
    data_sha256: str

    @property
    def task(self) -> str:
        """The name of the task, the same for all models."""
        return next(iter(self.bases.values())).task

    @property
    def less_is_better(self) -> bool:
        """Whether a lower validation metric is better."""
        return self.metric_key in LESS_IS_BETTER

    @property
    def metric_key(self) -> str:
        """The key of `Metrics.numbers` that is searched for, the same for all models."""
        return next(iter(self.bases.values())).metric_key

    @property
    def threads(self) -> int:
        """The number of threads of each trial."""
        return max(1, (os.cpu_count() or 1) // self.jobs)

    def configure(self, model: str, params: dict[str, Value]) -> RunConfig:
        """Return the configuration of a model with the values of a trial.

        Raises:
            ConfigError: the configuration does not have a key, or not the value.
        """
        return configured(self.bases[model], params)


def configured(base: RunConfig, params: Any) -> RunConfig:
    """Return a configuration with other values of some keys, given by dotted names; raises as `parse`."""
    return base.with_changes(nested(params), where="the configuration")


def data_hash(train: Dataset, validation: Dataset) -> str:
    """Return a hash of the texts and labels, by which a resumed search recognizes its data."""
    out = hashlib.sha256()
    for part in (train, validation):
        for content in part.content():
            out.update(content)
    return out.hexdigest()


def read_plan(folder: Path) -> Plan:
    """Return the plan of a search to resume.

    Raises:
        ConfigError: the folder has none.
        ModelFileError: it is damaged.
    """
    path = folder / PLAN_FILE
    try:
        return parse(Plan, {k: v for k, v in read_json(path).items() if k != "format_version"}, where=str(path))
    except FileNotFoundError:
        raise ConfigError(f"{path}: there is no search to resume; start one with: mixling tune FILE -o DIR") from None


def write_plan(folder: Path, plan: Plan) -> None:
    """Record the plan of a search."""
    write_sealed(folder / PLAN_FILE, plan.to_dict())


def open_studies(folder: Path, plan: Plan) -> Studies:
    """Open the journal of a search; raises as `Studies`."""
    return Studies(
        folder / JOURNAL_FILE, plan.spaces,
        less_is_better=plan.less_is_better, seed=plan.seed,
    )  # fmt: skip


def trial_folder(folder: Path, result: Result) -> Path:
    """Return the run folder of a trial."""
    return folder / TRIALS_FOLDER / result.model / (DEFAULT if result.number is None else f"{result.number:04}")


@dataclass
class Search:
    """A search in a folder, which the caller has locked.

    Args:
        finished: called with each trial that is finished or failed.
        log: receives messages.
    """

    folder: Path
    plan: Plan
    studies: Studies
    finished: Callable[[Result], None] = lambda result: None
    log: Log = lambda message: None
    _trials: dict[Worker, Result | None] = field(default_factory=dict)  # what each worker trains
    _seconds: list[float] = field(default_factory=list)
    _failures: list[str] = field(default_factory=list)
    _killed: list[Result] = field(default_factory=list)  # trials whose process was killed once, all of them
    _again: list[Result] = field(default_factory=list)  # those that are still to be trained again

    def run(self) -> None:
        """Train the trials that are still to do, a killed search's first.

        Raises:
            TrainingError: the first trials all failed, or a worker was interrupted.
            StorageError: the disk is full, or the like.
        """
        before = self.studies.spent
        begin = time.monotonic()
        jobs = self._jobs(lambda: before + time.monotonic() - begin)
        self._seconds = [result.seconds for result in self.results() if result.seconds is not None]
        try:
            while True:
                self._assign(jobs)
                busy = {worker: trial for worker, trial in self._trials.items() if trial is not None}
                if not busy:
                    return
                for worker in wait_for(busy):
                    trial = busy[worker]
                    try:
                        message = worker.receive()
                    except WorkerEnded:
                        del self._trials[worker]
                        message = self._ended(worker, trial)
                    else:
                        self._trials[worker] = None
                    if message is not None:
                        self._finish(trial, message)
                self.studies.spent = before + time.monotonic() - begin
        finally:
            idle = [worker for worker, trial in self._trials.items() if trial is None]
            for worker in idle:
                worker.connection.close()
            end_workers(list(self._trials))  # those that are training save a checkpoint
            self._trials.clear()

    def results(self) -> list[Result]:
        """Return all trials of all models, with the default configurations that are trained."""
        found = []
        for model in self.plan.bases:
            if (default := self.studies.default(model)) is not None:
                found.append(default)
            found += self.studies.results(model)
        return found

    def best(self) -> Result | None:
        """Return the best trial of all models, which may be a default configuration; None: none is finished."""
        return best(self.results(), less_is_better=self.plan.less_is_better)

    def _jobs(self, spent: Callable[[], float]) -> Iterator[Result]:
        models = list(self.plan.bases)
        plan = self.plan
        for model in models:
            yield from self.studies.unfinished(model)
        for model in models:
            if self.studies.default(model) is None:
                yield Result(model=model, number=None, params={}, state="running")
        while True:
            model = min(models, key=self.studies.count)  # in turn
            if plan.trials is not None and self.studies.count(model) >= plan.trials:
                return
            if plan.time_budget is not None:
                expected = sum(self._seconds) / len(self._seconds) if self._seconds else 0.0
                if spent() + expected > plan.time_budget and self.studies.count(model):
                    return
            yield self.studies.ask(model)

    def _assign(self, jobs: Iterator[Result]) -> None:
        """Give every idle worker a trial, and start workers while there are more trials."""
        idle = [worker for worker, trial in self._trials.items() if trial is None]
        base = next(iter(self.plan.bases.values())).to_dict()
        while idle or len(self._trials) < self.plan.jobs:
            if (trial := self._again.pop() if self._again else next(jobs, None)) is None:
                return
            location = trial_folder(self.folder, trial)
            try:
                config = self.plan.configure(trial.model, trial.params)
            except ConfigError as error:  # values that exclude each other
                self._finish(trial, Failed(message=str(error)))
                continue
            worker = idle.pop() if idle else Worker(work, base, self.plan.threads)
            self._trials[worker] = trial
            worker.send(Job(folder=location, config=config.to_dict()))

    def _finish(self, trial: Result, message: Trained | Failed) -> None:
        """Store how a trial ended."""
        match message:
            case Failed(final=True):
                raise StorageError(message.message)
            case Failed():
                self.studies.fail(trial, message.message)
                self._failures.append(f"{self._name(trial)}: {message.message}")
            case Trained():
                self.studies.complete(trial, value=message.value, loss=message.loss, seconds=message.seconds)
                self._seconds.append(message.seconds)
        self.finished(self._stored(trial))
        if len(self._failures) == _MOST_FAILED and not self._seconds:
            raise TrainingError(f"the first {_MOST_FAILED} trials failed; {self._failures[0]}")

    def _stored(self, trial: Result) -> Result:
        default = self.studies.default(trial.model)
        if trial.number is None:
            assert default is not None
            return default
        return self.studies.results(trial.model)[trial.number]

    def _name(self, trial: Result) -> str:
        return str(trial_folder(self.folder, trial))

    def _ended(self, worker: Worker, trial: Result) -> Failed | None:
        """Return the failure of a trial whose process ended; None: it was killed, and is trained again, once."""
        if not (code := worker.process.exitcode):
            raise TrainingError(f"the process of {self._name(trial)} was interrupted; resume the search")
        if code < 0 and trial not in self._killed:
            self._killed.append(trial)
            self._again.append(trial)
            self.log(f"{self._name(trial)}: its process was killed by signal {-code}; it is trained again")
            return None
        return Failed(message=f"its process {worker.how_it_ended('use fewer --jobs')}")


def train_best(
    config: RunConfig,
    train: Dataset,
    validation: Dataset,
    *,
    folder: Path,
    threads: int,
    callback: Callback,
    log: Log,
) -> Run[Metrics] | None:
    """Train a configuration, or continue this training; return None if it is already finished.

    It is trained with a refit, unless the validation examples are named: then it is the model of the trial.

    Args:
        folder: the run folder. A model in it that has another configuration is replaced.
        threads: of the trial; with another number, sums are rounded in another way.
    """
    refit = config.fits_validation and not task_type(config.task).windows
    decisions = config.decisions.model_copy(update={"refit": refit})
    wanted = config.model_copy(update={"decisions": decisions})
    location = folder_to_resume(folder)
    resume = False
    if (location / RUN_FILE).exists():
        found, finished = resumed_config(folder)
        if found == wanted and finished:
            return None
        resume = found == wanted and (location / CHECKPOINT).exists()
    with contextlib.nullcontext() if config.fits_validation else limited_threads(threads):
        return fit(wanted, train, validation, folder=folder, resume=resume, callback=callback, log=log)
