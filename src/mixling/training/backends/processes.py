"""What several processes that train together exchange with PyTorch."""

from __future__ import annotations

import gc
import inspect
import os
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from datetime import timedelta
from pathlib import Path
from types import FrameType

import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from mixling.training.backends.context import DistributedContext


def gathering(model: nn.Module, *, last: bool) -> AbstractContextManager[None]:
    """Return a context for one of several passes of a step, which averages gradients after the last one only."""
    return model.no_sync() if isinstance(model, DistributedDataParallel) and not last else nullcontext()


def add_up(context: DistributedContext, values: Tensor) -> Tensor:
    """Return the sum over all processes."""
    if context.world > 1:
        dist.all_reduce(values)
    return values


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

    A Gloo thread that frees a tensor after interpreter shutdown aborts the process. Matplotlib keeps parser errors, and
    with their frames all calling frames, including the trainer's.
    """
    for item in gc.get_objects():
        if type(item) is FrameType and not item.f_code.co_flags & inspect.CO_GENERATOR:
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
