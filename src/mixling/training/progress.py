"""Training progress on standard error: a bar on a terminal or in a notebook, and a table row for each evaluation."""

from __future__ import annotations

import importlib.util
import sys
import time
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from mixling.errors import printable
from mixling.training.callbacks import Callback, Step

_WIDEST = 9  # characters of a cell: steps of long runs, speeds


class TrainingProgress(Callback):
    """Callback that shows progress; `log` writes a line without disturbing the bar.

    Attributes:
        metric: the validation metric to show, as in metrics.jsonl but without `val_`.
        console: where everything is written; it honors NO_COLOR.

    Args:
        silent: show nothing, for processes other than the main one.
    """

    def __init__(self, *, silent: bool = False) -> None:
        self.metric = "accuracy"
        self._silent = silent
        self.console = Console(stderr=True, highlight=False)
        self._bar: Progress | None = None
        # In notebooks rich needs ipywidgets.
        in_notebook = self.console.is_jupyter and importlib.util.find_spec("ipywidgets") is not None
        if (sys.stderr.isatty() or in_notebook) and not silent:
            columns = (
                BarColumn(),
                MofNCompleteColumn(),
                TimeElapsedColumn(),
                TextColumn("left"),
                TimeRemainingColumn(),
            )
            self._bar = Progress(*columns, TextColumn("{task.description}"), console=self.console, transient=True)
        self._validation = ""
        self._total_steps, self._resumed = 0, False
        self._total_epochs: int | None = None  # 0: lines count steps; None: not known yet
        self._tokens, self._begun, self._seconds = 0, 0.0, 0.0
        self._header = ""  # of the table, once it is written

    def log(self, message: str) -> None:
        """Write one line."""
        if not self._silent:
            self.console.print(printable(message, keep="\n"), markup=False, soft_wrap=True)

    def started(self, step: int, total_steps: int) -> None:
        self._total_steps, self._total_epochs, self._resumed = total_steps, None, step > 0
        self._header = ""
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
            status = f"loss {step.loss:.4f}{self._validation}  {self._speed()}"
            self._bar.update(self._bar.task_ids[0], completed=step.number, description=status)

    def evaluated(self, record: dict[str, Any]) -> None:
        metric = self.metric.replace("_", " ")
        value = _shown(record[f"val_{self.metric}"])
        self._validation = f"  validation {metric} {value}"
        unit, position = self._position(record)
        cells = {
            unit: position,
            "train loss": f"{record['train_loss']:.4f}",
            "validation loss": f"{record['val_loss']:.4f}",
            metric: value,
            "tokens/s": f"{self._per_second():,.0f}",
        }
        widths = [max(len(title), _WIDEST) for title in cells]
        header = "  ".join(f"{title:>{width}}" for title, width in zip(cells, widths, strict=True)) + "  best"
        if header != self._header:
            self.log(header)
            self._header = header
        row = "  ".join(f"{cell:>{width}}" for cell, width in zip(cells.values(), widths, strict=True))
        self.log(f"{row}  {'*' if record['best'] else ''}".rstrip())
        self._tokens, self._begun = 0, time.monotonic()  # the speed does not include evaluations

    def finished(self) -> None:
        if self._bar is not None:
            self._bar.stop()

    def _position(self, record: dict[str, Any]) -> tuple[str, str]:
        """Return "epoch" if every evaluation is at the end of an epoch, else "step", and its number; the same unit for
        a whole run.
        """
        step, epoch = record["step"], float(record["epoch"])
        if self._total_epochs is None:
            epochs, rest = divmod(self._total_steps * epoch, step)
            # The first evaluation of a resumed run may be at the end of an epoch by chance.
            by_epochs = epoch.is_integer() and rest == 0 and not self._resumed
            self._total_epochs = int(epochs) if by_epochs else 0
        if self._total_epochs:
            return "epoch", f"{round(epoch)}/{self._total_epochs}"
        return "step", f"{step}/{self._total_steps}"

    def _per_second(self) -> float:
        return self._tokens / max(self._seconds, 1e-9)

    def _speed(self) -> str:
        return f"{self._per_second():,.0f} tokens/s"


def _shown(value: float) -> str:
    """Format with four decimals up to 1, else (a perplexity) with three significant digits."""
    if abs(value) <= 1:
        return f"{value:.4f}"
    return f"{value:.3g}" if abs(value) < 1000 else f"{value:,.0f}"
