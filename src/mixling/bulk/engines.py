"""Where parts are predicted: in this process, or in worker processes that are replaced when they die."""

from __future__ import annotations

import contextlib
import time
from collections import deque
from multiprocessing.connection import Connection
from types import TracebackType
from typing import Protocol, Self

from mixling.bulk.files import FilePart
from mixling.bulk.work import BulkJob, Outcome, perform
from mixling.workers import Worker, WorkerEnded, begin_as_worker, end_workers, wait_for


class PartEngine(Protocol):
    """Predicts parts, up to `slots` at a time."""

    slots: int

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def start(self, part: FilePart, delay: float) -> None:
        """Begin to predict a part, `delay` seconds from now."""

    def wait(self) -> list[tuple[FilePart, Outcome]]:
        """Wait until at least one part has ended, well or not."""


def perform_later(job: BulkJob, part: FilePart, delay: float) -> Outcome:
    """Predict a part after a delay, which gives a store time to recover."""
    time.sleep(delay)
    return perform(job, part)


class InProcess:
    """Predicts in this process."""

    slots = 1

    def __init__(self, job: BulkJob) -> None:
        self._job = job
        self._waiting = deque[tuple[FilePart, float]]()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def start(self, part: FilePart, delay: float) -> None:
        self._waiting.append((part, delay))

    def wait(self) -> list[tuple[FilePart, Outcome]]:
        part, delay = self._waiting.popleft()
        return [(part, perform_later(self._job, part, delay))]


class ProcessPool:
    """Predicts in worker processes.

    A worker ends with this process, however that ends, so that it cannot write into a folder that another run resumes.

    Args:
        workers: their number.
    """

    def __init__(self, job: BulkJob, workers: int) -> None:
        self._job = job
        self.slots = workers
        self._parts: dict[Worker, FilePart | None] = {}  # what each worker predicts

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        end_workers(list(self._parts))

    def start(self, part: FilePart, delay: float) -> None:
        worker = next((worker for worker, its in self._parts.items() if its is None), None)
        if worker is None:
            assert len(self._parts) < self.slots, "more parts than slots"
            worker = Worker(_serve)
            worker.send(self._job)
        self._parts[worker] = part
        worker.send((part, delay))

    def wait(self) -> list[tuple[FilePart, Outcome]]:
        busy = {worker: part for worker, part in self._parts.items() if part is not None}
        ended = []
        for worker in wait_for(busy):
            part = busy[worker]
            try:
                outcome = worker.receive()
                self._parts[worker] = None
            except WorkerEnded:
                del self._parts[worker]
                how = worker.how_it_ended("use fewer --workers")
                process = f"the process that predicted it (from {part.start:,} to {part.stop:,})"
                outcome = Outcome(error=f"{part.path}: {process} {how}", again=True)
            ended.append((part, outcome))
        return ended


def _serve(connection: Connection) -> None:
    """Receive a job, and predict the parts of it that arrive, until no more can."""
    begin_as_worker()
    with contextlib.suppress(EOFError, OSError):  # of the connection: this process ends with its parent
        job: BulkJob = connection.recv()
        while True:
            part, delay = connection.recv()
            connection.send(perform_later(job, part, delay))
