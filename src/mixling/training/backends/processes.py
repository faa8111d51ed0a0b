"""What several processes that train together exchange with PyTorch, and sharded models."""

from __future__ import annotations

import copy
import gc
import inspect
import os
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from datetime import timedelta
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from mixling.layers.mixer import Mixer
from mixling.models.block import Block
from mixling.training.backends.context import DistributedContext

if TYPE_CHECKING:
    from mixling.training.config import Parallel


def wrap(
    context: DistributedContext, model: nn.Module, device: torch.device, how: Parallel
) -> tuple[nn.Module, nn.Module]:
    """Return the model to train on the device, and the module to call, whose gradients are averaged.

    Args:
        how: "ddp": every process has the whole model; "fsdp": a copy whose blocks are sharded over the processes
            and gathered when needed (FSDP2). With one process there is no difference.
    """
    if context.world == 1 or how == "ddp":
        trained = model.to(device)
        return trained, trained if context.world == 1 else DistributedDataParallel(trained)
    # Sharding alone takes a third of the time that all imports of a training take.
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    trained = copy.deepcopy(model).to(device)
    for parameter in trained.parameters():  # as DDP does: initial weights may differ in the last bit by machine
        dist.broadcast(parameter.detach(), 0)
    mesh = init_device_mesh(device.type, (context.world,))
    for block in _blocks(trained):
        fully_shard(block, mesh=mesh)
    fully_shard(trained, mesh=mesh)  # the parameters outside of blocks
    return trained, trained


def gathering(context: DistributedContext, model: nn.Module, *, last: bool) -> AbstractContextManager[None]:
    """Return a context for one of several passes of a step, which averages gradients after the last one only."""
    if context.world == 1:
        return nullcontext()
    if isinstance(model, DistributedDataParallel):
        return nullcontext() if last else model.no_sync()
    from torch.distributed.fsdp import FSDPModule

    assert isinstance(model, FSDPModule)
    model.set_requires_gradient_sync(last)
    return nullcontext()


def add_up(context: DistributedContext, values: Tensor) -> Tensor:
    """Return the sum over all processes."""
    if context.world > 1:
        dist.all_reduce(values)
    return values


def _blocks(model: nn.Module) -> list[Block]:
    """Return the blocks that share no parameters: shared ones must be gathered when another block needs them."""
    borrowed = [mixer.borrowed for mixer in model.modules() if isinstance(mixer, Mixer)]
    lent = {parameter for module in borrowed if module is not None for parameter in module.parameters()}
    return [block for block in model.modules() if isinstance(block, Block) and lent.isdisjoint(block.parameters())]


@contextmanager
def process_group() -> Iterator[DistributedContext]:
    """Join the process group of torchrun, and leave it at the end."""
    # Not within a step: modules imported there keep its frames, and with them the group (`_end_threads`).
    import torch.distributed.fsdp

    if torch.cuda.is_available():
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
    # Gloo besides NCCL, because counts and models on the CPU are exchanged as well.
    backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
    # The others wait while the main process runs a teacher; torchrun ends them if it fails.
    dist.init_process_group(backend, timeout=timedelta(hours=24))
    try:
        yield DistributedContext(dist.get_rank(), dist.get_world_size())
    finally:
        dist.destroy_process_group()
        _end_threads()


def _end_threads() -> None:
    """Drop the last references to the destroyed group, so that its threads end before the interpreter does.

    A Gloo thread that frees a tensor after interpreter shutdown aborts the process. Caches of torch keep the mesh of
    sharded parameters, which in torch 2.13 holds its groups. Matplotlib keeps parser errors, and with their frames all
    calling frames, including the trainer's.
    """
    from torch.distributed.device_mesh import DeviceMesh

    for item in gc.get_objects():
        if type(item) is DeviceMesh:
            vars(item).get("_pg_registry", {}).clear()
        elif type(item) is FrameType and not item.f_code.co_flags & inspect.CO_GENERATOR:
            with suppress(RuntimeError):  # the frame is executing
                item.clear()
    gc.collect()
    # What the threads themselves hold is freed a moment later.
    for _ in range(200):
        if not _has_gloo_threads():
            return
        time.sleep(0.01)


def _has_gloo_threads() -> bool:
    """Return whether threads of Gloo run; outside Linux, which lists them, False."""
    for task in Path("/proc/self/task").glob("*"):
        with suppress(OSError):  # the thread has ended
            if "gloo" in (task / "comm").read_text():
                return True
    return False
