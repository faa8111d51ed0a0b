"""Worker processes: how many may be used, their start, their messages and their end."""

from __future__ import annotations

import contextlib
import functools
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextvars import ContextVar
from multiprocessing import resource_tracker
from multiprocessing.connection import wait
from typing import Any, TypeVar

SPAWN = multiprocessing.get_context("spawn")  # a fork would copy the threads' locks of this process

_PATIENCE = 10.0  # seconds for processes to end, such as after a checkpoint

_allowed: ContextVar[int] = ContextVar("allowed worker processes", default=1)


@contextlib.contextmanager
def use_workers(number: int) -> Iterator[None]:
    """Let several processes train the models of ensembles and audits in a block.

    Results do not depend on the number. Processes are started where there is enough work. They import the main module,
    so a script must begin the work under `if __name__ == "__main__"`.

    Args:
        number: of processes; 1: only this one.
    """
    token = _allowed.set(number)
    try:
        yield
    finally:
        _allowed.reset(token)


def available_cpus() -> int:
    """Return the number of CPUs that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def usable_cores() -> int:
    """Return the number of CPUs that this process may use, or of threads that OMP_NUM_THREADS allows it."""
    limit = os.environ.get("OMP_NUM_THREADS", "")
    return min(available_cpus(), int(limit)) if limit.isdecimal() and int(limit) else available_cpus()


def num_workers() -> int:
    """Return the number of processes that `use_workers` allows; 1: this one does the work."""
    return 1 if multiprocessing.current_process().daemon else _allowed.get()


class WorkerEnded(Exception):
    """A worker process ended, and nothing more comes from it."""


class Worker:
    """A process that gets its work through a connection, and answers through it.

    The work is sent, rather than given as an argument: an argument goes through a pipe whose other end is open in this
    process, too, so that writing it would never end if the process ended before it had read it.

    Args:
        target: what the process does; its arguments are its end of the connection, and `arguments`, which are small.
    """

    def __init__(self, target: Callable[..., None], *arguments: Any) -> None:
        self.connection, its = SPAWN.Pipe()
        self.process = SPAWN.Process(target=target, args=(its, *arguments), daemon=True)
        with interrupts_blocked():
            self.process.start()
        its.close()  # so that the end of the process closes the connection

    def send(self, message: Any) -> None:
        """Send a message; if the process has ended, this is noticed when its answer is to be received."""
        with contextlib.suppress(OSError):
            self.connection.send(message)

    def receive(self) -> Any:
        """Return the next message of the process.

        Raises:
            WorkerEnded: there is none.
        """
        try:
            return self.connection.recv()
        except (EOFError, OSError):
            end_workers([self], terminate=False)
            raise WorkerEnded from None

    def how_it_ended(self, remedy: str) -> str:
        """Return how the process ended, as the end of a sentence.

        Args:
            remedy: what takes less memory, which may be what it was killed for.
        """
        code = self.process.exitcode or 0
        if code < 0:
            return f"was killed by signal {-code}; if memory is short, {remedy}"
        if code > 0:
            return (
                f"ended with exit code {code}; its error is printed above (a script must begin the work under "
                "`if __name__ == '__main__':`)"
            )
        return "was interrupted"


@contextlib.contextmanager
def interrupts_blocked() -> Iterator[None]:
    """Start processes that Ctrl-C, which reaches them, too, does not end with a traceback while they import modules."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    resource_tracker.ensure_running()  # which the first process needs; its start would let signals through
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def allow_interrupts() -> None:
    """Raise KeyboardInterrupt on Ctrl-C from here on, and for one since this worker was started."""
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})


_W = TypeVar("_W", bound=Worker)


def wait_for(workers: Iterable[_W]) -> list[_W]:
    """Wait until some workers have sent a message or ended, and return these."""
    waiting = {worker.connection: worker for worker in workers}
    ready = wait(list(waiting))
    return [worker for connection, worker in waiting.items() if connection in ready]


def end_workers(workers: Sequence[Worker], *, terminate: bool = True) -> None:
    """Wait for the processes to end, and kill the rest after ten seconds.

    Args:
        terminate: ask them to end; False: they are about to.
    """
    for worker in workers:
        if terminate:
            worker.process.terminate()
    limit = time.monotonic() + _PATIENCE
    for worker in workers:
        worker.process.join(max(0.0, limit - time.monotonic()))
        if worker.process.is_alive():
            worker.process.kill()
            worker.process.join()
        worker.connection.close()


def begin_as_worker() -> None:
    """Leave Ctrl-C, which reaches all processes, to the parent, and end with it; for the process of a `Worker`."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    end_with_parent()


def end_with_parent(end: Callable[[], object] = functools.partial(os._exit, 1)) -> None:
    """Make this worker end when the process that started it has ended, in whatever way.

    Args:
        end: called then, in another thread.
    """
    parent = multiprocessing.parent_process()
    assert parent is not None

    def watch() -> None:
        parent.join()
        end()

    threading.Thread(target=watch, daemon=True).start()
