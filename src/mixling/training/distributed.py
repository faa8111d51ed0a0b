"""Several processes on one global batch, started by torchrun; without torchrun, one process."""

from __future__ import annotations

import copy
import gc
import inspect
import os
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from datetime import timedelta
from types import FrameType
from typing import Literal

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.nn.parallel import DistributedDataParallel

from mixling.layers.mixer import Mixer
from mixling.models.block import Block

Parallel = Literal["ddp", "fsdp"]


@dataclass(frozen=True, slots=True)
class DistributedContext:
    """This process's place among those that train together."""

    rank: int = 0
    world: int = 1

    @property
    def is_main(self) -> bool:
        """Whether this process writes files and talks to the user."""
        return self.rank == 0

    def wrap(self, model: nn.Module, device: torch.device, how: Parallel) -> tuple[nn.Module, nn.Module]:
        """What is trained on the device, and what to call: its gradients are averaged over the processes.

        Args:
            how: "ddp": every process has the whole model; "fsdp": a copy of which each has a part of every block, and
                gathers a block when its turn comes (FSDP2). With one process there is no difference.
        """
        if self.world == 1 or how == "ddp":
            trained = model.to(device)
            return trained, trained if self.world == 1 else DistributedDataParallel(trained)
        trained = copy.deepcopy(model).to(device)
        for parameter in trained.parameters():
            dist.broadcast(
                parameter.detach(), 0
            )  # as DDP does: machines may differ in a last bit of what they began with
        mesh = init_device_mesh(device.type, (self.world,))
        for block in _blocks(trained):
            fully_shard(block, mesh=mesh)
        fully_shard(trained, mesh=mesh)  # and with it what is in no block
        return trained, trained

    def gathering(self, model: nn.Module, *, last: bool) -> AbstractContextManager[None]:
        """Around one of several passes of a step: gradients are averaged after the last."""
        if isinstance(model, FSDPModule):
            model.set_requires_gradient_sync(last)
        elif isinstance(model, DistributedDataParallel) and not last:
            return model.no_sync()
        return nullcontext()

    def sum(self, values: Tensor) -> Tensor:
        """The sum over all processes."""
        if self.world > 1:
            dist.all_reduce(values)
        return values

    def barrier(self) -> None:
        """Wait until every process is here."""
        if self.world > 1:
            dist.barrier()

    def broadcast(self, values: Sequence[float]) -> list[float]:
        """The main process's numbers, in every process."""
        shared = torch.tensor(values, dtype=torch.float64)
        if self.world > 1:
            dist.broadcast(shared, 0)
        return shared.tolist()


def _blocks(model: nn.Module) -> list[Block]:
    """Those whose parameters nobody else uses: what a block lends must be gathered when the borrower's turn comes."""
    borrowed = [mixer.borrowed for mixer in model.modules() if isinstance(mixer, Mixer)]
    lent = {parameter for module in borrowed if module is not None for parameter in module.parameters()}
    return [block for block in model.modules() if isinstance(block, Block) and lent.isdisjoint(block.parameters())]


def is_launched() -> bool:
    """Whether torchrun started this process as one of several."""
    return int(os.environ.get("WORLD_SIZE", "1")) > 1 and "RANK" in os.environ


@contextmanager
def distributed_context() -> Iterator[DistributedContext]:
    """Join the other processes, if there are any, and leave them at the end."""
    if not is_launched():
        yield DistributedContext()
        return
    if torch.cuda.is_available():
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
    # Gloo too beside NCCL: counts and models on the CPU are shared also where there is a GPU.
    backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
    # The others wait while the first asks a teacher; torchrun ends them all if it fails.
    dist.init_process_group(backend, timeout=timedelta(hours=24))
    try:
        yield DistributedContext(dist.get_rank(), dist.get_world_size())
    finally:
        dist.destroy_process_group()
        _end_threads()


def _end_threads() -> None:
    """Let go of the last references to the destroyed group, so that its threads end while Python still runs.

    A thread of Gloo that gives a tensor back after Python's end aborts a process whose work is done. Caches of torch
    keep the mesh of sharded parameters, which in torch 2.13 holds its groups. Matplotlib keeps errors of the parser of
    its labels, and by their frames all frames that called it, with the trainer in them.
    """
    for item in gc.get_objects():
        if type(item) is DeviceMesh:
            vars(item).get("_pg_registry", {}).clear()
        elif isinstance(item, FrameType) and not item.f_code.co_flags & inspect.CO_GENERATOR:
            with suppress(RuntimeError):  # it runs
                item.clear()
    gc.collect()
