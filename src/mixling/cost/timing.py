"""Time and memory of encoders, measured side by side: in each round every model runs once."""

from __future__ import annotations

import statistics
import time
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from mixling.cost.flops import count
from mixling.models.model import Model, ModelConfig, build_model, sized


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """One model at one length.

    seconds: median of one forward pass of the encoder over a batch, and the smallest.
    peak_bytes: most memory that the pass's own tensors take at a time, weights and input not counted.
    """

    model: str
    length: int
    batch: int
    parameters: int
    flops: int
    seconds: float
    fastest: float
    peak_bytes: int


def evaluate(
    configs: Mapping[str, ModelConfig],
    lengths: Sequence[int],
    *,
    batch: int = 1,
    repeats: int = 7,
    device: str = "cpu",
    time_limit: float = 20.0,
    log: Callable[[str], None] = lambda message: None,
) -> Iterator[Evaluation]:
    """Measure every model at every length, all models of a length interleaved.

    Each model is built for the longest of `lengths`. A model whose pass took longer than `time_limit` seconds is left
    out at greater lengths, one that ran out of memory at that length too, and that is said.
    """
    left = list(configs)

    @contextmanager
    def within_memory(name: str, length: int) -> Iterator[None]:
        try:
            yield
        except (RuntimeError, MemoryError) as error:  # of a CPU torch raises a bare RuntimeError
            if not isinstance(error, torch.OutOfMemoryError | MemoryError) and "allocate memory" not in str(error):
                raise
            left.remove(name)
            log(f"{name}: out of memory at {length} tokens; this length and longer texts are left out")

    for length in sorted(lengths):
        models: dict[str, tuple[_Body, Tensor]] = {}
        peaks: dict[str, int] = {}
        times: dict[str, list[float]] = {name: [] for name in left}
        mask = torch.ones(batch, length, dtype=torch.bool, device=device)
        for name in tuple(left):
            with within_memory(name, length):
                model = _encoder(configs[name], max(lengths), device)
                x = torch.randn(batch, length, model.encoder_dim, device=device)
                peaks[name] = _peak(model, x, mask)  # warms up, too
                models[name] = model, x
        for _ in range(repeats):
            for name in tuple(left):
                if not times[name] or times[name][-1] <= time_limit / repeats or len(times[name]) < 3:
                    with within_memory(name, length):
                        times[name].append(_seconds(*models[name], mask))
        for name in tuple(left):
            counts = count(sized(configs[name], max_len=max(lengths)), length=length)
            yield Evaluation(
                model=name,
                length=length,
                batch=batch,
                parameters=counts.parameters,
                flops=batch * counts.flops,
                seconds=statistics.median(times[name]),
                fastest=min(times[name]),
                peak_bytes=peaks[name],
            )
            if statistics.median(times[name]) > time_limit:
                log(f"{name}: {statistics.median(times[name]):.1f} s at {length} tokens; longer texts are left out")
                left.remove(name)


class _Body(torch.nn.Module):
    """An encoder that knows its width."""

    def __init__(self, model: Model, dim: int) -> None:
        super().__init__()
        self.encoder, self.encoder_dim = model.encoder, dim

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        return self.encoder(x, mask)


def _encoder(config: ModelConfig, max_len: int, device: str) -> _Body:
    # The table has no part in the measure: one row of it is enough.
    small = sized(config, vocabulary=1, max_len=max_len)
    return _Body(build_model(small, num_outputs=2, output="text", seed=0), config.dim).to(device).eval()


@torch.inference_mode()
def _seconds(model: _Body, x: Tensor, mask: Tensor) -> float:
    _wait(x)
    begin = time.perf_counter()
    model(x, mask)
    _wait(x)
    return time.perf_counter() - begin


def _wait(x: Tensor) -> None:
    if x.is_cuda:
        torch.cuda.synchronize(x.device)


@torch.no_grad()
def _peak(model: _Body, x: Tensor, mask: Tensor) -> int:
    if x.is_cuda:
        torch.cuda.reset_peak_memory_stats(x.device)
        before = torch.cuda.memory_allocated(x.device)
        model(x, mask)
        _wait(x)
        return torch.cuda.max_memory_allocated(x.device) - before
    with _LiveTensors() as live:
        model(x, mask)
    return live.peak


class _LiveTensors(TorchDispatchMode):
    """Adds up the storages that operations return while they live; what a kernel uses inside is not seen."""

    def __init__(self) -> None:
        super().__init__()
        self.peak = self._now = 0
        self._known: weakref.WeakSet[Any] = weakref.WeakSet()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = {t.untyped_storage() for t in tree_leaves((args, kwargs)) if isinstance(t, Tensor)}
        out = func(*args, **(kwargs or {}))
        for tensor in tree_leaves(out):
            if isinstance(tensor, Tensor):
                storage = tensor.untyped_storage()
                if storage not in given and storage not in self._known:  # else a view, or written in place
                    self._add(storage)
        return out

    def _add(self, storage: torch.UntypedStorage) -> None:
        size = storage.nbytes()
        self._known.add(storage)
        self._now += size
        self.peak = max(self.peak, self._now)
        weakref.finalize(storage, self._release, size)

    def _release(self, size: int) -> None:
        self._now -= size
