"""Trainings that do not depend on each other: side by side in several processes, or one after another."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any, Generic, TypeVar

import torch

from mixling.errors import Interrupted, TrainingError, UserError
from mixling.training.callbacks import Log
from mixling.training.threads import limited_threads
from mixling.workers import SPAWN, end_with_parent, num_workers

_J = TypeVar("_J")
_R = TypeVar("_R")

Train = Callable[[_J, Log], _R]
"""Does a job, and logs lines about it. It, the jobs and the results can be pickled."""


def train_jobs(
    train: Train[_J, _R], jobs: Mapping[str, _J], *, most: int, alone: bool = False, log: Log
) -> Generator[tuple[_J, _R]]:
    """Yield each job with its result when it is done.

    `mixling.workers.use_workers` says how many jobs are done at the same time. Results do not depend on it: every job
    has its part of the threads of this process. The processes end with the generator, which is to be closed.

    Args:
        jobs: by the name that begins each line of their logs.
        most: number of jobs among which the threads are divided, those that were done before included.
        alone: whether `train` cannot be sent to another process.

    Raises:
        TrainingError: a process ended without a result.
        UserError: see `train`.
    """
    threads = max(1, torch.get_num_threads() // most)
    # A graphics processor trains one model at a time.
    workers = 1 if alone or torch.cuda.is_available() else min(num_workers(), len(jobs))
    if workers > 1:
        yield from _side_by_side(train, jobs, workers, threads, log)
        return
    with limited_threads(threads):
        for name, job in jobs.items():
            yield job, train(job, _named(name, log))


def _named(name: str, log: Log) -> Log:
    return lambda line: log(f"{name}: {line}")


def _side_by_side(
    train: Train[_J, _R], jobs: Mapping[str, _J], workers: int, threads: int, log: Log
) -> Generator[tuple[_J, _R]]:
    names, started = list(jobs), list[_Worker]()
    try:
        for number in range(workers):
            started.append(_Worker.start(names[number::workers], threads))
        for worker in started:
            worker.send(train, [jobs[name] for name in worker.names])
        running = {worker.connection: worker for worker in started}
        while running:
            for connection in wait(list(running)):
                worker = running[connection]  # type: ignore[index]
                match worker.receive():
                    case str(line):
                        _named(worker.names[0], log)(line)
                    case UserError() as error:
                        raise error
                    case _Result(result):
                        yield jobs[worker.names.pop(0)], result
                if not worker.names:
                    del running[worker.connection]
    finally:
        for worker in started:
            worker.process.terminate()
        for worker in started:
            worker.process.join()


@dataclass(frozen=True)
class _Result(Generic[_R]):
    result: _R


@dataclass
class _Worker:
    """A process that does jobs, one after another; `names` are those that it has not finished, in order."""

    process: BaseProcess
    connection: Connection
    names: list[str]

    @classmethod
    def start(cls, names: list[str], threads: int) -> _Worker:
        ours, its = SPAWN.Pipe()
        process = SPAWN.Process(target=_work, args=(its, threads), daemon=True)
        process.start()
        its.close()  # so that the end of the process closes the connection
        return cls(process, ours, names)

    def send(self, train: Train[Any, Any], jobs: list[Any]) -> None:
        """Send the jobs; as an argument of the process, they would never be written if it ended before reading them."""
        with contextlib.suppress(OSError):  # that the process has ended is noticed when its messages are read
            self.connection.send((train, jobs))

    def receive(self) -> str | UserError | _Result[Any]:
        """Return a line of the log, an error or the result of a job.

        Raises:
            TrainingError: the process has ended.
        """
        try:
            return self.connection.recv()
        except (EOFError, OSError):
            self.process.join()
            raise TrainingError(f"{self.names[0]}: {_reason(self.process.exitcode or 0)}") from None


def _reason(code: int) -> str:
    if code < 0:
        return f"its process was killed by signal {-code}; if memory is short, train one at a time, with --workers 1"
    if code > 0:
        return (
            f"its process ended with exit code {code}; its error is printed above (a script must begin the training "
            "under `if __name__ == '__main__':`)"
        )
    return "its process was interrupted"


def _work(connection: Connection, threads: int) -> None:
    """Do the jobs that the parent sends; send each line of their logs, and a result or an error."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all processes, and the parent ends the others
    end_with_parent()
    # The parent may be gone, and a training that is interrupted ends early; neither needs words here.
    with limited_threads(threads), contextlib.suppress(EOFError, OSError, Interrupted):
        train, jobs = connection.recv()
        for job in jobs:
            try:
                result = train(job, connection.send)
            except UserError as error:
                connection.send(error)
                return
            connection.send(_Result(result))
