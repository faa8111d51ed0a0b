"""One run of gpu.py: sizes, the time that is left, and how calls are timed."""

from __future__ import annotations

import statistics
import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import torch
from side_by_side import Calls, in_turn
from torch import nn

MINUTES = 5.5


@dataclass
class Run:
    """Sizes, and the time that is left."""

    device: torch.device
    tokens: int = 65_536
    dim: int = 256
    lengths: tuple[int, ...] = (128, 512, 2048, 8192, 32_768)
    rounds: int = 11
    tiny: bool = False
    begun: float = field(default_factory=time.monotonic)
    left_out: list[str] = field(default_factory=list)

    def allows(self, what: str, seconds: float) -> bool:
        """Whether there is time for something that takes so long."""
        fits = time.monotonic() - self.begun + seconds < 60 * MINUTES
        if not fits:
            self.left_out.append(what)
        return fits

    def wait(self) -> None:
        """Let the card finish."""
        if self.device.type == "cuda":
            torch.cuda.synchronize()

    def half(self, module: nn.Module) -> nn.Module:
        """A module on the card, in bfloat16."""
        return module.to(self.device, torch.bfloat16).train()

    def compiled(self, module: Any) -> Any:
        """A module by torch.compile, of open lengths; as it is where sizes are tiny."""
        return module if self.tiny else torch.compile(module, dynamic=True)


def milliseconds(run: Run, calls: Calls, what: str) -> dict[str, float | None]:
    """Medians of calls that take turns; None: not enough memory."""
    fitting: Calls = {}
    times: dict[str, float | None] = {}
    for name, call in calls.items():
        times[name] = None
        with suppress(torch.OutOfMemoryError):
            call()
            run.wait()
            begin = time.perf_counter()
            call()
            run.wait()
            if run.allows(f"{what}: {name}", (run.rounds + 1) * (time.perf_counter() - begin)):
                fitting[name] = lambda call=call: (call(), run.wait())
    spent = in_turn(fitting, run.rounds, time.perf_counter)
    return times | {name: round(1e3 * statistics.median(values), 4) for name, values in spent.items()}
