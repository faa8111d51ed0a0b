"""Time and memory of encoders, measured in turns: in each round every model runs once."""

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

from mixling.models.counts import count
from mixling.models.encoder import Encoder
from mixling.models.model import build_model
from mixling.networks.config import ModelConfig, sized


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """The cost of a model at one length.

    Attributes:
        parameters, flops: see `mixling.research.cost.flops.Counts`; flops of a batch.
        seconds, fastest: median and minimum time of a forward pass of the encoder over a batch.
        peak_bytes: peak memory of the tensors of the pass, without weights and input.
    """

    model: str
    length: int
    batch: int
    parameters: int
    flops: int
    seconds: float
    fastest: float
    peak_bytes: int


def time_model(
    configs: Mapping[str, ModelConfig],
    lengths: Sequence[int],
    *,
    batch: int = 1,
    repeats: int = 7,
    device: str = "cpu",
    time_limit: float = 20.0,
    mixing_only: bool = False,
    log: Callable[[str], None] = lambda message: None,
) -> Iterator[Measurement]:
    """Measure every model at every length, with the models of a length taking turns.

    Each model is built for the maximum of `lengths`. A model whose pass takes longer than `time_limit` seconds is left
    out at greater lengths, and one that runs out of memory already at that length; both are logged.

    Args:
        batch: texts in a batch.
        repeats: forward passes of each model; their median is reported.
        mixing_only: measure the token mixing alone, without feed-forwards (HyperMixer, Figure 2).
    """
    if mixing_only:
        configs = {name: _without_feed_forward(config) for name, config in configs.items()}
    left = list(configs)

    @contextmanager
    def within_memory(name: str, length: int) -> Iterator[None]:
        try:
            yield
        except (RuntimeError, MemoryError) as error:  # torch raises a bare RuntimeError on a CPU
            if not isinstance(error, torch.OutOfMemoryError | MemoryError) and "allocate memory" not in str(error):
                raise
            left.remove(name)
            log(f"{name}: out of memory at {length} tokens; this length and longer texts are left out")

    for length in sorted(lengths):
        models: dict[str, tuple[Encoder, Tensor]] = {}
        peaks: dict[str, int] = {}
        times: dict[str, list[float]] = {name: [] for name in left}
        mask = torch.ones(batch, length, dtype=torch.bool, device=device)
        for name in tuple(left):
            with within_memory(name, length):
                model = _encoder(configs[name], max(lengths), device)
                x = torch.randn(batch, length, model.dim, device=device)
                peaks[name] = _peak(model, x, mask)  # also serves as warm-up
                models[name] = model, x
        for _ in range(repeats):
            for name in tuple(left):
                if not times[name] or times[name][-1] <= time_limit / repeats or len(times[name]) < 3:
                    with within_memory(name, length):
                        times[name].append(_seconds(*models[name], mask))
        for name in tuple(left):
            counts = count(sized(configs[name], max_len=max(lengths)), length=length)
            yield Measurement(
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


def _without_feed_forward(config: ModelConfig) -> ModelConfig:
    layers = tuple(layer.model_copy(update={"feed_forward": None}) for layer in config.layers)
    return config.model_copy(update={"layers": layers})


def _encoder(config: ModelConfig, max_len: int, device: str) -> Encoder:
    # The embedding table is not measured: one row suffices.
    small = sized(config, vocabulary=1, max_len=max_len)
    return build_model(small, num_outputs=2, output="text", seed=0).encoder.to(device).eval()


@torch.inference_mode()
def _seconds(model: Encoder, x: Tensor, mask: Tensor) -> float:
    _wait(x)
    begin = time.perf_counter()
    model(x, mask)
    _wait(x)
    return time.perf_counter() - begin


def _wait(x: Tensor) -> None:
    if x.is_cuda:
        torch.cuda.synchronize(x.device)


@torch.no_grad()
def _peak(model: Encoder, x: Tensor, mask: Tensor) -> int:
    if x.is_cuda:
        torch.cuda.reset_peak_memory_stats(x.device)
        before = torch.cuda.memory_allocated(x.device)
        model(x, mask)
        _wait(x)
        return torch.cuda.max_memory_allocated(x.device) - before
    with _LiveTensors() as live:
        model(x, mask)
    return int(live.peak)


class _LiveTensors(TorchDispatchMode):
    """Tracks the memory of tensors that operations return, but not of temporary memory inside kernels."""

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
                if storage not in given and storage not in self._known:  # else a view or an in-place result
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
