"""The plots of a run folder, which are skipped if matplotlib is not installed."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path

from mixling.artifacts.files import CURVES_FILE
from mixling.errors import MissingPackage
from mixling.export.plots import training_curves
from mixling.training.callbacks import Callback
from mixling.training.files import HISTORY


def if_possible(draw: Callable[[], None], log: Callable[[str], None]) -> bool:
    """Draw a plot and return True, or log which package is missing and return False."""
    try:
        draw()
    except MissingPackage as error:
        log(f"no plot was drawn: {error}")
        return False
    return True


class Curves(Callback):
    """Callback that draws curves.png during training, so that interrupted runs have it too.

    Args:
        folder: the run's, with its metrics.jsonl.
        every: minimum number of seconds between two plots, and before the first; drawing takes about half a second.
    """

    def __init__(self, folder: Path, *, every: float = 30.0) -> None:
        self._folder = folder
        self._every = every
        self._next = 0.0

    def started(self, step: int, total_steps: int) -> None:
        self._next = time.monotonic() + self._every

    def evaluated(self, record: dict[str, object]) -> None:
        if time.monotonic() < self._next:
            return
        lines = (self._folder / HISTORY).read_text("utf-8").splitlines()
        history = [json.loads(line) for line in lines]
        drawn = if_possible(lambda: training_curves(history, self._folder / CURVES_FILE), lambda message: None)
        self._next = time.monotonic() + self._every if drawn else float("inf")
