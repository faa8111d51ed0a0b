"""What a training tells on standard error: a bar on a terminal, else one line for each evaluation."""

from __future__ import annotations

import sys
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from mixling.training.loop import Observer


class TrainingProgress(Observer):
    """Shows a training; `say` writes a line that does not disturb the bar.

    Args:
        metric: the measure of dev by which the best epoch is chosen, as metrics.jsonl names it.
        silent: say and show nothing (a process beside the main one).
    """

    def __init__(self, *, silent: bool = False) -> None:
        self.metric = "accuracy"
        self._silent = silent
        self._console = Console(stderr=True, highlight=False)
        self._bar: Progress | None = None
        if sys.stderr.isatty() and not silent:
            columns = (
                BarColumn(),
                MofNCompleteColumn(),
                TimeElapsedColumn(),
                TextColumn("left"),
                TimeRemainingColumn(),
            )
            self._bar = Progress(*columns, TextColumn("{task.description}"), console=self._console, transient=True)
        self._dev = ""

    def say(self, message: str) -> None:
        """Write one line."""
        if not self._silent:
            self._console.print(message, markup=False, soft_wrap=True)

    def started(self, step: int, total_steps: int) -> None:
        if self._bar is not None:
            self._bar.add_task("", total=total_steps, completed=step)
            self._bar.start()
        elif step:
            self.say(f"going on at step {step} of {total_steps}")

    def stepped(self, step: int, loss: float) -> None:
        if self._bar is not None:
            self._bar.update(self._bar.task_ids[0], completed=step, description=f"loss {loss:.4f}{self._dev}")

    def evaluated(self, record: dict[str, Any]) -> None:
        name = self.metric.replace("_", " ")
        value = record[f"dev_{self.metric}"]
        self._dev = f"  dev {name} {value:.4f}"
        best = "  (best so far)" if record["best"] else ""
        losses = f"train loss {record['train_loss']:.4f}  dev loss {record['dev_loss']:.4f}"
        self.say(f"epoch {record['epoch']:<5g}  {losses}  dev {name} {value:.4f}{best}")

    def finished(self) -> None:
        if self._bar is not None:
            self._bar.stop()
