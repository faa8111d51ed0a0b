"""Predict parts as tasks of Ray, on one machine or a cluster."""

from __future__ import annotations

import contextlib
import os
from typing import Any, Self

from mixling.bulk.engines import perform_later
from mixling.bulk.files import FilePart
from mixling.bulk.work import BulkJob, Outcome
from mixling.errors import ConfigError, MissingPackage
from mixling.installation import install_command

_AHEAD = 2  # tasks for each CPU that are submitted, so that none waits for the next one


def perform_in(folder: str, job: BulkJob, part: FilePart, delay: float) -> Outcome:
    """Predict a part in a current folder, where it exists; a worker of a cluster is started in another one."""
    with contextlib.suppress(OSError):
        os.chdir(folder)
    return perform_later(job, part, delay)


class RayTasks:
    """Predicts each part in a task of Ray; the model travels with the first one to each machine.

    Args:
        workers: tasks at a time; None: twice as many as the cluster has CPUs.

    Raises:
        MissingPackage: Ray is not installed.
        ConfigError: there is no cluster at RAY_ADDRESS, or without it Ray cannot be started here.
    """

    def __init__(self, job: BulkJob, workers: int | None) -> None:
        try:
            import ray
        except ImportError:
            raise MissingPackage(f"--engine ray needs Ray: {install_command('scale')}") from None
        self._ray = ray
        self._running = dict[Any, FilePart]()
        self._own = not ray.is_initialized()
        if self._own:
            try:
                ray.init(log_to_driver=False, logging_level="ERROR")
            except (ConnectionError, RuntimeError, ValueError, TimeoutError) as error:
                reason = " ".join(str(error).split())
                raise ConfigError(f"--engine ray: Ray cannot be reached at RAY_ADDRESS, or started: {reason}") from None
        self.slots = workers or max(int(_AHEAD * ray.cluster_resources().get("CPU", 1)), 1)
        self._job = ray.put(job)
        # Tries again are ours, as for every engine.
        self._perform = ray.remote(num_cpus=1, max_retries=0)(perform_in)
        self._folder = os.getcwd()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        for task in self._running:
            self._ray.cancel(task, force=True)
        if self._own:
            self._ray.shutdown()

    def start(self, part: FilePart, delay: float) -> None:
        self._running[self._perform.remote(self._folder, self._job, part, delay)] = part

    def wait(self) -> list[tuple[FilePart, Outcome]]:
        ended = []
        for task in self._ray.wait(list(self._running), num_returns=1)[0]:
            part = self._running.pop(task)
            try:
                outcome = self._ray.get(task)
            except self._ray.exceptions.RayError as error:  # its worker or machine died
                reason = " ".join(str(error).split())[:300]
                outcome = Outcome(error=f"{part.path}: its task failed: {reason}", again=True)
            ended.append((part, outcome))
        return ended
