"""Training progress on standard error: a bar on a terminal or in a notebook, and a table row for each evaluation."""

from __future__ import annotations

import importlib.util
import sys
import time
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.status import Status
from rich.text import Text

from mixling.errors import printable
from mixling.training.callbacks import Callback, Detail, Step

_WIDEST = 9  # characters of a cell: steps of long runs, speeds
# characters of the shortest bar, and of a time
_BAR = 10
_TIME = 7
_DROPPED = ("tokens/s", "validation loss", "train loss")  # columns that a narrow terminal lacks, first to last


class TrainingProgress(Callback):
    """Callback that shows progress; `log` writes a line without disturbing the bar.

    Attributes:
        metric: the validation metric to show, as in metrics.jsonl but without `val_`.
        console: where everything is written; it honors NO_COLOR.

    Args:
        silent: show nothing, for processes other than the main one.
        verbose: show lines that are a `Detail`, too.
    """

    def __init__(self, *, silent: bool = False, verbose: bool = False) -> None:
        self.metric = "accuracy"
        self._silent = silent
        self._verbose = verbose
        self.console = Console(stderr=True, highlight=False)
        self._bar: Progress | None = None
        # In notebooks rich needs ipywidgets.
        in_notebook = self.console.is_jupyter and importlib.util.find_spec("ipywidgets") is not None
        if ((sys.stderr.isatty() and not self.console.is_dumb_terminal) or in_notebook) and not silent:
            self._bar = Progress(console=self.console, transient=True)
        self._validation = ""
        self._total_steps = 0
        self._resumed = False
        self._total_epochs: int | None = None  # 0: lines count steps; None: not known yet
        self._tokens = 0
        self._begun = 0.0
        self._seconds = 0.0
        self._header = ""  # of the table, once it is written

    def log(self, message: str) -> None:
        """Write one line, wrapped between words on a terminal; a command in it is not, so that it can be copied."""
        if self._silent or (isinstance(message, Detail) and not self._verbose):
            return
        whole = not self.console.is_terminal or "mixling " in message
        self.console.print(printable(message, keep="\n"), markup=False, soft_wrap=whole)

    def started(self, step: int, total_steps: int) -> None:
        self._total_steps = total_steps
        self._total_epochs = None
        self._resumed = step > 0
        self._header = ""
        self._tokens = 0
        self._begun = time.monotonic()
        if self._bar is not None:
            self._bar.add_task("", total=total_steps, completed=step)
            self._bar.start()
        elif step:
            self.log(f"resuming at step {step} of {total_steps}")

    def stepped(self, step: Step) -> None:
        self._tokens += step.tokens
        self._seconds = time.monotonic() - self._begun
        if self._bar is not None:
            self._bar.columns = self._columns(step)
            self._bar.update(self._bar.task_ids[0], completed=step.number)

    def evaluated(self, record: dict[str, Any]) -> None:
        metric = self.metric.replace("_", " ")
        value = _shown(record[f"val_{self.metric}"])
        self._validation = f"{metric} {value}"
        unit, position = self._position(record)
        cells = {
            unit: position,
            "train loss": f"{record['train_loss']:.4f}",
            "validation loss": f"{record['val_loss']:.4f}",
            metric: value,
            "tokens/s": f"{self._per_second():,.0f}",
        }
        if self.console.is_terminal:
            for name in _DROPPED:
                if sum(max(len(title), _WIDEST) + 2 for title in cells) + len("best") > self.console.width:
                    del cells[name]
        widths = [max(len(title), _WIDEST) for title in cells]
        header = "  ".join(f"{title:>{width}}" for title, width in zip(cells, widths, strict=True)) + "  best"
        if header != self._header:
            self._line(header)
            self._header = header
        row = "  ".join(f"{cell:>{width}}" for cell, width in zip(cells.values(), widths, strict=True))
        self._line(f"{row}  {'*' if record['best'] else ''}".rstrip(), bold=value if record["best"] else "")
        # the speed does not include evaluations
        self._tokens = 0
        self._begun = time.monotonic()

    def finished(self) -> None:
        if self._bar is not None:
            self._bar.stop()

    def _line(self, text: str, *, bold: str = "") -> None:
        """Write a line of the table, as it is; the best value so far is bold."""
        if not self._silent:
            shown = Text(text)
            if bold:
                shown.stylize("bold", start := text.rindex(bold), start + len(bold))
            self.console.print(shown, soft_wrap=True)

    def _columns(self, step: Step) -> tuple[ProgressColumn, ...]:
        """Return what the line of progress has room for: the bar and the steps, then the rest by importance."""
        texts = [self._validation, f"loss {step.loss:.4f}", f"{self._per_second():,.0f} tokens/s"]
        validation, loss, speed = ((TextColumn(text), len(text)) for text in texts)
        left = (TimeRemainingColumn(), _TIME)
        elapsed = (TimeElapsedColumn(), _TIME)
        room = self.console.width - _BAR - 2 * len(str(self._total_steps)) - 2
        chosen: list[tuple[ProgressColumn, int]] = []
        for part in (left, validation, loss, speed, elapsed):
            if part[1] and part[1] < room:
                chosen.append(part)
                room -= part[1] + 1
        bar = BarColumn(bar_width=min(40, _BAR + room))
        return bar, MofNCompleteColumn(), *(column for column, _ in chosen)

    def _position(self, record: dict[str, Any]) -> tuple[str, str]:
        """Return "epoch" if every evaluation is at the end of an epoch, else "step", and its number; the same unit for
        a whole run.
        """
        step = record["step"]
        epoch = float(record["epoch"])
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


class ProgressLine(Callback):
    """One line on a terminal that says what several trainings are at, and is gone after the `with` block.

    Nothing is shown in a pipe. A message of `log` that begins with "==" names what comes next; others are not shown.
    """

    def __init__(self) -> None:
        console = Console(stderr=True, highlight=False)
        self._status = Status("reading", console=console, spinner="line") if console.is_terminal else None
        self._begun_by = ""
        self._total = 0

    def __enter__(self) -> ProgressLine:
        if self._status is not None:
            self._status.start()
        return self

    def __exit__(self, *error: object) -> None:
        if self._status is not None:
            self._status.stop()

    def log(self, message: str) -> None:
        """Name what begins."""
        if message.startswith("=="):
            self._begun_by = printable(message.removeprefix("==").strip())
            self._show(self._begun_by)

    def started(self, step: int, total_steps: int) -> None:
        self._total = total_steps

    def stepped(self, step: Step) -> None:
        self._show(f"{self._begun_by}: step {step.number:,} of {self._total:,}")

    def _show(self, text: str) -> None:
        if self._status is not None:
            self._status.update(escape(text))


def _shown(value: float) -> str:
    """Format with four decimals up to 1, else (a perplexity) with three significant digits."""
    if abs(value) <= 1:
        return f"{value:.4f}"
    return f"{value:.3g}" if abs(value) < 1000 else f"{value:,.0f}"
