"""Several processes on one global batch, started by torchrun; without torchrun, one process."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel


@dataclass(frozen=True, slots=True)
class Processes:
    """This process's place among those that train together."""

    rank: int = 0
    world: int = 1

    @property
    def is_main(self) -> bool:
        """Whether this process writes files and talks to the user."""
        return self.rank == 0

    def wrap(self, model: nn.Module) -> nn.Module:
        """The model with gradients averaged over the processes."""
        return model if self.world == 1 else DistributedDataParallel(model)

    def sum(self, values: Tensor) -> Tensor:
        """The sum over all processes."""
        if self.world > 1:
            dist.all_reduce(values)
        return values

    def barrier(self) -> None:
        """Wait until every process is here."""
        if self.world > 1:
            dist.barrier()

    def share(self, value: int) -> int:
        """The main process's number, in every process."""
        return int(self.sum(torch.tensor(value if self.is_main else 0)).item())


def is_launched() -> bool:
    """Whether torchrun started this process as one of several."""
    return int(os.environ.get("WORLD_SIZE", "1")) > 1 and "RANK" in os.environ


@contextmanager
def processes() -> Iterator[Processes]:
    """Join the other processes, if there are any, and leave them at the end."""
    if not is_launched():
        yield Processes()
        return
    if torch.cuda.is_available():
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
    # Gloo too beside NCCL: counts and models on the CPU are shared also where there is a GPU.
    backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
    # The others wait while the first asks a teacher; torchrun ends them all if it fails.
    dist.init_process_group(backend, timeout=timedelta(hours=24))
    try:
        yield Processes(dist.get_rank(), dist.get_world_size())
    finally:
        dist.destroy_process_group()
