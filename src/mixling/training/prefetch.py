"""Making the next batch while a step is computed."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Generic, TypeVar

from mixling.threads import num_threads

_Batch = TypeVar("_Batch")


class Prefetcher(Generic[_Batch]):
    """Makes the batch of the next step in a thread, where there is more than one for the computations.

    A batch is a function of its step, so that it does not matter when it is made. `wait` before anything else reads the
    data that batches are made of.
    """

    def __init__(self) -> None:
        self._pool: ThreadPoolExecutor | None = None
        self._step = -1
        self._batch: Future[_Batch] | None = None

    def start(self, step: int, make: Callable[[], _Batch]) -> None:
        """Begin to make the batch of a step."""
        if num_threads() > 1:
            self._pool = self._pool or ThreadPoolExecutor(1, thread_name_prefix="prefetch")
            self._step, self._batch = step, self._pool.submit(make)

    def take(self, step: int, make: Callable[[], _Batch]) -> _Batch:
        """Return the batch of a step: the one that was begun, or made now."""
        self.wait()
        batch = self._batch
        self._batch = None
        return batch.result() if batch is not None and self._step == step else make()

    def wait(self) -> None:
        """Return when no batch is being made; what goes wrong is raised by `take`."""
        if self._batch is not None:
            wait([self._batch])

    def close(self) -> None:
        """End the thread."""
        if self._pool is not None:
            self._pool.shutdown()
        self._pool = self._batch = None
