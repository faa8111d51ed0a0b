"""Distributed training: processes started by torchrun share each batch; without torchrun there is one process."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from mixling.training.backends.context import DistributedContext


def is_launched() -> bool:
    """Return whether torchrun started this process as one of several."""
    return int(os.environ.get("WORLD_SIZE", "1")) > 1 and "RANK" in os.environ


@contextmanager
def distributed_context() -> Iterator[DistributedContext]:
    """Join the process group of torchrun, if there is one, and leave it at the end."""
    if not is_launched():
        yield DistributedContext()
        return
    from mixling.training.backends.processes import process_group

    with process_group() as context:
        yield context
