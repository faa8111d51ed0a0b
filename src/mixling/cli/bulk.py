"""Bulk prediction: `mixling predict` with a folder to write to."""

from __future__ import annotations

import os
import signal
import sys
from typing import TYPE_CHECKING, Any

from mixling.cli.options import read_threshold
from mixling.cli.output import bad_rows_line
from mixling.errors import ConfigError, Interrupted

if TYPE_CHECKING:
    from mixling.cli.predict_options import PredictOptions


# Options that have no meaning for a folder, and why.
_REFUSED = {
    "url": ("--url", "a server takes texts, not files"),
    "echo": ("--echo", "all columns of the input are in the output"),
}


def is_bulk(out: str | None) -> bool:
    """Return whether the output of a command is a folder."""
    return out is not None and (out.endswith(("/", os.sep)) or "://" in out or os.path.isdir(out))


def predict_into_folder(model: str, options: PredictOptions) -> None:
    """Predict for files into a folder, with progress on a terminal.

    Raises:
        UserError: as `mixling.bulk.run.predict_files`.
        Interrupted: Ctrl-C was pressed; finished parts are kept.
    """
    from mixling.bulk.run import predict_files
    from mixling.runs.evaluation import columns_of
    from mixling.runtime.predictor import Predictor

    for field, (name, reason) in _REFUSED.items():
        if getattr(options, field):
            raise ConfigError(f"{name}: is not for folders; {reason}")
    if options.threads != 1:
        raise ConfigError("--threads: is not for folders; use --workers, each with one thread")
    if not options.inputs:
        raise ConfigError("no input; give files, such as 'in/*.parquet'")
    assert options.out is not None
    with _Bar() as bar:
        try:
            done = predict_files(
                model,
                options.inputs,
                options.out,
                columns=columns_of(model, options.columns(), Predictor(model).features),
                engine=options.engine or "processes",
                workers=options.workers,
                resume=options.resume,
                threshold=read_threshold(options.threshold),
                too_long=options.too_long,
                output_format=options.output_format,
                on_bad_row=options.on_bad_row,
                escape=options.escape,
                keep=options.kept or None,
                shown=options.shown,
                progress=bar.show,
                report=lambda message: print(message, file=sys.stderr),
            )
        except KeyboardInterrupt:
            raise Interrupted(
                f"interrupted; {options.out} keeps the finished parts: continue with --resume", signum=signal.SIGINT
            ) from None
    if done.bad_rows:
        print(bad_rows_line(done.bad_rows), file=sys.stderr)
    kept = f", {done.kept} of them from before" if done.kept else ""
    print(f"{options.out}: {done.rows:,} rows in {done.parts} file{'s' * (done.parts != 1)}{kept}", file=sys.stderr)


class _Bar:
    """A bar of progress, if standard error is a terminal."""

    def __init__(self) -> None:
        self._bar: Any = None

    def __enter__(self) -> _Bar:
        return self

    def __exit__(self, *error: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def show(self, done: int, parts: int, rows: int) -> None:
        """Show finished parts, all parts, and finished rows."""
        if not sys.stderr.isatty():
            return
        if self._bar is None:
            from rich.console import Console
            from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

            rest = "{task.completed:,.0f} of {task.total:,.0f} parts, {task.fields[rows]:,} rows"
            columns = (BarColumn(), TextColumn(rest), TimeElapsedColumn(), TimeRemainingColumn())
            self._bar = Progress(*columns, console=Console(stderr=True), transient=True)
            self._bar.add_task("", total=parts, rows=0)
            self._bar.start()
        self._bar.update(self._bar.task_ids[0], completed=done, rows=rows)
