"""The threads that a training uses."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch
from threadpoolctl import threadpool_limits


@contextlib.contextmanager
def limited_threads(number: int) -> Iterator[None]:
    """Limit the threads of torch, BLAS and OpenMP in a block; the bits of a trained model depend on them."""
    import scipy.linalg  # noqa: F401 (a library that is loaded later would not be limited)

    before = torch.get_num_threads()
    torch.set_num_threads(number)
    try:
        with threadpool_limits(number):
            yield
    finally:
        torch.set_num_threads(before)
