"""Where parts are predicted: in this process, or in worker processes that are replaced when they die."""

from __future__ import annotations

import contextlib
import signal
import time
from collections import deque
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from types import TracebackType
from typing import Protocol, Self

from mixling.bulk.plan import FilePart
from mixling.bulk.work import BulkJob, Outcome, perform
from mixling.workers import SPAWN, end_with_parent


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
        self._job, self._waiting = job, deque[tuple[FilePart, float]]()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def start(self, part: FilePart, delay: float) -> None:
        self._waiting.append((part, delay))

    def wait(self) -> list[tuple[FilePart, Outcome]]:
        part, delay = self._waiting.popleft()
        return [(part, perform_later(self._job, part, delay))]


@dataclass
class _Worker:
    process: SpawnProcess
    connection: Connection
    part: FilePart | None = None


class ProcessPool:
    """Predicts in worker processes.

    A worker ends with this process, however that ends, so that it cannot write into a folder that another run resumes.

    Args:
        workers: their number.
    """

    def __init__(self, job: BulkJob, workers: int) -> None:
        self._job, self.slots = job, workers
        self._workers: list[_Worker] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        for worker in self._workers:
            worker.connection.close()
            worker.process.terminate()
        for worker in self._workers:
            worker.process.join()

    def start(self, part: FilePart, delay: float) -> None:
        worker = next((item for item in self._workers if item.part is None), None)
        if worker is None:
            assert len(self._workers) < self.slots, "more parts than slots"
            worker = self._hire()
        worker.part = part
        _send(worker.connection, (part, delay))

    def wait(self) -> list[tuple[FilePart, Outcome]]:
        busy = {worker.connection: worker for worker in self._workers if worker.part is not None}
        ended = []
        for connection in wait(list(busy)):  # a connection is ready, too, when its worker has died
            worker = busy[connection]  # type: ignore[index]
            assert worker.part is not None
            try:
                outcome = worker.connection.recv()
            except (EOFError, OSError):
                worker.process.join()
                self._workers.remove(worker)
                outcome = Outcome(error=_death(worker), again=True)
            ended.append((worker.part, outcome))
            worker.part = None
        return ended

    def _hire(self) -> _Worker:
        mine, its = SPAWN.Pipe()
        # The job, which holds the model, goes through the connection. An argument goes through a pipe whose other end
        # is open in this process, too: if the worker died before it has read it, writing would never end.
        process = SPAWN.Process(target=_serve, args=(its,), daemon=True)
        process.start()
        its.close()  # so that the death of the worker closes the connection
        _send(mine, self._job)
        worker = _Worker(process, mine)
        self._workers.append(worker)
        return worker


def _send(connection: Connection, item: object) -> None:
    """Send an item to a worker; that it has died is noticed by `ProcessPool.wait`."""
    with contextlib.suppress(OSError):
        connection.send(item)


def _death(worker: _Worker) -> str:
    code = worker.process.exitcode or 0
    how = (
        f"died with signal {-code}; if memory is short, use fewer --workers"
        if code < 0
        else f"ended with exit code {code}; its error is printed above (a script must call `predict_files` under "
        "`if __name__ == '__main__':`)"
    )
    assert worker.part is not None
    part = worker.part
    return f"{part.path}: the process that predicted it (from {part.start:,} to {part.stop:,}) {how}"


def _serve(connection: Connection) -> None:
    """Receive a job, and predict the parts of it that arrive, until no more can."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all processes, and the parent ends the others
    end_with_parent()
    with contextlib.suppress(EOFError, OSError):  # of the connection: this process ends with its parent
        job: BulkJob = connection.recv()
        while True:
            part, delay = connection.recv()
            connection.send(perform_later(job, part, delay))
