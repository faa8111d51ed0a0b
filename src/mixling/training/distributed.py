"""Distributed training: processes started by torchrun share each batch; without torchrun there is one process."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DistributedContext:
    """This process's rank, and the number of processes that train together."""

    rank: int = 0
    world: int = 1

    @property
    def is_main(self) -> bool:
        """Whether this process writes files and logs."""
        return self.rank == 0

    def barrier(self) -> None:
        """Wait until every process has called this method."""
        if self.world > 1:
            import torch.distributed

            torch.distributed.barrier()

    def broadcast(self, values: Sequence[float]) -> list[float]:
        """Return the main process's numbers in every process."""
        if self.world == 1:
            return [float(value) for value in values]
        import torch

        shared = torch.tensor(values, dtype=torch.float64)
        torch.distributed.broadcast(shared, 0)
        return shared.tolist()


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
