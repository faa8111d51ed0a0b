"""A process that trains one trial after another.

The data are read once per process. A trial that was interrupted continues from its checkpoint, with the same result.
The process ends when its parent does, in whatever way, so that its lock on the folder of a trial is free when the
search is resumed.
"""

from __future__ import annotations

import os
import time
import traceback
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from mixling.config import parse
from mixling.errors import Interrupted, StorageError, UserError
from mixling.storage import write_atomic
from mixling.workers import allow_interrupts, end_with_parent

ERROR_FILE = "error.txt"  # in the folder of a failed trial


@dataclass(frozen=True, kw_only=True)
class Job:
    """A trial to train."""

    folder: Path
    config: dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Trained:
    """A finished trial: its validation metric and loss, and the seconds that it took."""

    value: float
    loss: float
    seconds: float


@dataclass(frozen=True, kw_only=True)
class Failed:
    """A trial without a result; `final`: no other trial can work either, such as on a full disk."""

    message: str
    final: bool = False


def work(connection: Connection, config: dict[str, Any], threads: int) -> None:
    """Train the jobs that the parent sends, until it sends None.

    Args:
        connection: carries a `Job` or None in, and messages out.
        config: a RunConfig with the data.
        threads: that a training uses.
    """
    end_with_parent()
    from mixling.threads import limited_threads

    try:
        allow_interrupts()
        with limited_threads(threads):
            _work(connection, config)
    except (KeyboardInterrupt, Interrupted, EOFError, BrokenPipeError):
        os._exit(0)  # the trial has its checkpoint


def _work(connection: Connection, config: dict[str, Any]) -> None:
    from mixling.runs.data import read_data
    from mixling.runs.resolve.config import RunConfig

    data = None
    while (job := connection.recv()) is not None:
        assert isinstance(job, Job)
        begin = time.monotonic()
        try:
            if data is None:
                data = read_data(parse(RunConfig, config, where="data"), spool_dir=None, log=lambda message: None)
            value, loss = _train(job, *data)
        except StorageError as error:
            connection.send(Failed(message=str(error), final=True))
        except UserError as error:
            connection.send(_failure(job.folder, str(error), str(error)))
        except (RuntimeError, ValueError, MemoryError) as error:  # such as too little memory for a large model
            summary = str(error).splitlines()[0] if str(error) else ""
            connection.send(_failure(job.folder, f"{type(error).__name__}: {summary}", traceback.format_exc()))
        else:
            connection.send(Trained(value=value, loss=loss, seconds=time.monotonic() - begin))


def _failure(folder: Path, message: str, text: str) -> Failed:
    write_atomic(folder / ERROR_FILE, text + "\n")
    return Failed(message=message)


def _train(job: Job, train: Any, validation: Any) -> tuple[float, float]:
    """Train a trial, or continue it, or read its result if it was already finished."""
    from mixling.artifacts.files import RUN_FILE, read_metrics
    from mixling.runs.resolve.config import RunConfig, resumed_config
    from mixling.runs.training import fit
    from mixling.training.files import CHECKPOINT

    config = parse(RunConfig, job.config, where=str(job.folder))
    resume = False
    metric = config.metric_key
    if (job.folder / RUN_FILE).exists():
        config, finished = resumed_config(job.folder)
        resume = not finished and (job.folder / CHECKPOINT).exists()
        if finished:
            report = read_metrics(job.folder)
            return _result(report["validation"], metric, report["best"]["val_loss"])
    run = fit(config, train, validation, folder=job.folder, resume=resume)
    assert run is not None
    return _result(run.report["validation"], metric, run.best["val_loss"])


def _result(metrics: dict[str, Any], metric: str, loss: float) -> tuple[float, float]:
    return float(metrics[metric] or 0.0), float(metrics.get("log_loss") or loss)
