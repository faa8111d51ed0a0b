"""The progress of a training on standard error: a bar on a terminal or in a notebook, else a line an evaluation."""

from __future__ import annotations

import importlib.util
import sys
import time
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from mixling.errors import printable
from mixling.training.callbacks import Callback, Step


class TrainingProgress(Callback):
    """Shows a training; `log` writes a line that does not disturb the bar.

    Args:
        metric: the measure of validation by which the best epoch is chosen, as metrics.jsonl names it.
        silent: say and show nothing (a process beside the main one).
    """

    def __init__(self, *, silent: bool = False) -> None:
        self.metric = "accuracy"
        self._silent = silent
        self._console = Console(stderr=True, highlight=False)
        self._bar: Progress | None = None
        # In a notebook rich draws by ipywidgets.
        in_notebook = self._console.is_jupyter and importlib.util.find_spec("ipywidgets") is not None
        if (sys.stderr.isatty() or in_notebook) and not silent:
            columns = (
                BarColumn(),
                MofNCompleteColumn(),
                TimeElapsedColumn(),
                TextColumn("left"),
                TimeRemainingColumn(),
            )
            self._bar = Progress(*columns, TextColumn("{task.description}"), console=self._console, transient=True)
        self._validation = ""
        self._total_steps, self._resumed = 0, False
        self._total_epochs: int | None = None  # 0: the lines count steps; None: not known yet
        self._tokens, self._begun, self._seconds = 0, 0.0, 0.0

    def log(self, message: str) -> None:
        """Write one line."""
        if not self._silent:
            self._console.print(printable(message, keep="\n"), markup=False, soft_wrap=True)

    def started(self, step: int, total_steps: int) -> None:
        self._total_steps, self._total_epochs, self._resumed = total_steps, None, step > 0
        self._tokens, self._begun = 0, time.monotonic()
        if self._bar is not None:
            self._bar.add_task("", total=total_steps, completed=step)
            self._bar.start()
        elif step:
            self.log(f"resuming at step {step} of {total_steps}")

    def stepped(self, step: Step) -> None:
        self._tokens += step.tokens
        self._seconds = time.monotonic() - self._begun
        if self._bar is not None:
            reported = f"loss {step.loss:.4f}{self._validation}  {self._speed()}"
            self._bar.update(self._bar.task_ids[0], completed=step.number, description=reported)

    def evaluated(self, record: dict[str, Any]) -> None:
        self._validation = f"  validation {self.metric.replace('_', ' ')} {_shown(record[f'dev_{self.metric}'])}"
        best = "  (best so far)" if record["best"] else ""
        losses = f"train loss {record['train_loss']:.4f}  validation loss {record['val_loss']:.4f}"
        self.log(f"{self._position(record)}  {losses}{self._validation}  {self._speed():>16}{best}")
        self._tokens, self._begun = 0, time.monotonic()  # of the steps, without the evaluation

    def finished(self) -> None:
        if self._bar is not None:
            self._bar.stop()

    def _position(self, record: dict[str, Any]) -> str:
        """How far the training is, in one unit for all lines of a run: epochs where each evaluation ends one."""
        step, epoch = record["step"], float(record["epoch"])
        if self._total_epochs is None:
            epochs, rest = divmod(self._total_steps * epoch, step)
            # The first evaluation of a resumed run may end an epoch by chance.
            by_epochs = epoch.is_integer() and rest == 0 and not self._resumed
            self._total_epochs = int(epochs) if by_epochs else 0
        if self._total_epochs:
            return f"epoch {round(epoch):>{len(str(self._total_epochs))}}/{self._total_epochs}"
        return f"step {step:>{len(str(self._total_steps))}}/{self._total_steps}"

    def _speed(self) -> str:
        return f"{self._tokens / max(self._seconds, 1e-9):,.0f} tokens/s"


def _shown(value: float) -> str:
    """Four digits of a share; of what may be large, such as a perplexity, three that count."""
    if abs(value) <= 1:
        return f"{value:.4f}"
    return f"{value:.3g}" if abs(value) < 1000 else f"{value:,.0f}"
