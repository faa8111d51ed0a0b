"""One of the processes that train together, as a training sees it."""

from __future__ import annotations

from collections.abc import Sequence
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
