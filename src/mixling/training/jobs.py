"""Trainings that do not depend on each other: side by side in several processes, or one after another."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Generic, TypeVar

from mixling.errors import Interrupted, TrainingError, UserError
from mixling.threads import has_gpu, limited_threads, num_threads
from mixling.training.callbacks import Log
from mixling.workers import Worker, WorkerEnded, begin_as_worker, end_workers, num_workers, wait_for

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
    threads = max(1, num_threads() // most)
    # A graphics processor trains one model at a time.
    workers = 1 if alone or has_gpu() else min(num_workers(), len(jobs))
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
    unfinished: dict[Worker, list[str]] = {}  # the jobs of each worker, in order
    names = list(jobs)
    try:
        for number in range(workers):
            unfinished[Worker(_work, threads)] = names[number::workers]
        for worker, its in unfinished.items():
            worker.send((train, [jobs[name] for name in its]))
        while running := [worker for worker, its in unfinished.items() if its]:
            for worker in wait_for(running):
                name = unfinished[worker][0]
                try:
                    message = worker.receive()
                except WorkerEnded:
                    how = worker.how_it_ended("train one at a time, with OMP_NUM_THREADS=1")
                    raise TrainingError(f"{name}: its process {how}") from None
                match message:
                    case str(line):
                        _named(name, log)(line)
                    case UserError() as error:
                        raise error
                    case _Result(result):
                        yield jobs[unfinished[worker].pop(0)], result
    finally:
        end_workers(list(unfinished))


@dataclass(frozen=True)
class _Result(Generic[_R]):
    result: _R


def _work(connection: Connection, threads: int) -> None:
    """Do the jobs that the parent sends; send each line of their logs, and a result or an error."""
    begin_as_worker()
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
