"""The threads that a training uses."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator

from threadpoolctl import threadpool_limits

from mixling.workers import usable_cores

_limit: int | None = None


def num_threads() -> int:
    """Return the number of threads of a computation: PyTorch's where it is in use, else the processors at hand."""
    if (torch := sys.modules.get("torch")) is not None:
        number: int = torch.get_num_threads()
        return number
    if _limit is not None:
        return _limit
    return usable_cores()


def has_gpu() -> bool:
    """Return whether PyTorch is in use and has a graphics processor."""
    torch = sys.modules.get("torch")
    return torch is not None and torch.cuda.is_available()


@contextlib.contextmanager
def limited_threads(number: int) -> Iterator[None]:
    """Limit the threads of computations in a block; the bits of a model that PyTorch or BLAS made depend on them."""
    global _limit
    before = num_threads()
    limit_before = _limit
    wanted_before = os.environ.get("OMP_NUM_THREADS")
    _limit = number
    os.environ["OMP_NUM_THREADS"] = str(number)  # of PyTorch, if the block is the first to import it
    if (torch := sys.modules.get("torch")) is not None:
        torch.set_num_threads(number)
    try:
        with threadpool_limits(number):
            yield
    finally:
        _limit = limit_before
        os.environ.pop("OMP_NUM_THREADS")
        if wanted_before is not None:
            os.environ["OMP_NUM_THREADS"] = wanted_before
        if (torch := sys.modules.get("torch")) is not None:
            torch.set_num_threads(before)
