"""Worker processes: how many may be used, and their end when the process that started them ends."""

from __future__ import annotations

import contextlib
import functools
import multiprocessing
import os
import threading
from collections.abc import Callable, Iterator
from contextvars import ContextVar

SPAWN = multiprocessing.get_context("spawn")  # a fork would copy the threads' locks of this process

_allowed: ContextVar[int] = ContextVar("allowed worker processes", default=1)


@contextlib.contextmanager
def use_workers(number: int) -> Iterator[None]:
    """Let several processes work on a block: split its texts into words, and train the models of ensembles and audits.

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


def num_workers() -> int:
    """Return the number of processes that `use_workers` allows; 1: this one does the work."""
    return 1 if multiprocessing.current_process().daemon else _allowed.get()


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
