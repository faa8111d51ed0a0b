"""The run's folder as a command line names it: what may not stand there, and what may not be said beside --resume."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator
from pathlib import Path

from mixling.cli.command import given_options
from mixling.cli.options import RunOptions
from mixling.errors import ConfigError, Interrupted, ModelFileError, command_line
from mixling.training.interrupts import Terminated, terminations


@contextlib.contextmanager
def interruptible(folder: Path) -> Iterator[None]:
    """State how to resume the run in a folder where a signal comes before its steps or after them.

    Raises:
        Interrupted: SIGINT or SIGTERM came.
    """
    try:
        with terminations():
            yield
    except KeyboardInterrupt as error:
        from mixling.runs.artifact import unfinished_run

        run = unfinished_run(folder)
        hint = "nothing was changed" if run is None else f"resume with: {run.command}"
        if run is not None and run.folder != folder:
            hint += f"\n{folder}: its model is unchanged"
        signum = signal.SIGTERM if isinstance(error, Terminated) else signal.SIGINT
        raise Interrupted(f"interrupted; {hint}", signum=signum) from None


def check_run_folder(options: RunOptions) -> None:
    """Refuse what is wrong with the folder of a run before anything heavy is imported.

    Raises:
        ConfigError: options that exclude each other, or a file where the folder should be.
    """
    if options.resume and options.overwrite:
        raise ConfigError("--resume and --overwrite exclude each other: resume the run, or replace it")
    refuse_file(options.out)


def refuse_beside_resume(options: RunOptions) -> None:
    """Refuse what a resumed run has in its folder.

    Raises:
        ConfigError: an option is given beside --resume.
    """
    if also := [name for name in given_options(options) if name not in ("--resume", "--out")]:
        raise ConfigError(f"with --resume all comes from {options.out}; leave out {', '.join(also)}")


def refuse_unfinished(model: str) -> None:
    """Refuse the folder of a run that is not finished and has no model yet.

    Raises:
        ModelFileError: it says how to finish the run, or to take its best weights so far.
    """
    from mixling.runs.artifact import ONNX_FILE, TRAINING, kind_of_run, unfinished_run

    if not Path(model).is_dir() or (Path(model) / ONNX_FILE).exists() or (run := unfinished_run(model)) is None:
        return
    of = "" if run.total_steps is None else f" at step {run.step:,} of {run.total_steps:,}"
    export = command_line("mixling", "export", model, "-o", "model.onnx")
    best = f", or take its best weights so far: {export}" if run.best and kind_of_run(Path(model)) == TRAINING else ""
    raise ModelFileError(f"{model}: holds an unfinished run{of}; finish it: {run.command}{best}")


def refuse_file(folder: Path) -> None:
    """Refuse a folder that cannot be one.

    Raises:
        ConfigError: it, or what should hold it, is a file.
    """
    for path in (folder, *folder.absolute().parents):
        if path.is_dir():
            return
        if path.exists():
            raise ConfigError(f"{path}: is a file; -o names the folder of the run")


def refuse_old_run(folder: Path) -> None:
    """Refuse to write over a run, or over files of its names.

    Raises:
        ConfigError: there are some; it says what to do.
    """
    from mixling.runs.artifact import RUN_FILE, WRITTEN, is_finished, unfinished_run

    if not (folder / RUN_FILE).exists():
        if found := [name for name in WRITTEN if (folder / name).exists()]:
            raise ConfigError(
                f"{folder}: is no run but holds {', '.join(found)}, which a run would replace; give a folder of its "
                f"own with -o, or replace what is there with --overwrite"
            )
        return
    run = unfinished_run(folder)
    if not is_finished(folder):
        raise ConfigError(
            f"{folder}: holds an unfinished run; continue it with --resume, or replace it with --overwrite"
        )
    if run is not None:
        raise ConfigError(
            f"{folder}: holds a finished run, and an unfinished one that will replace it; resume that with: "
            f"{run.command}, or begin it anew with --overwrite"
        )
    raise ConfigError(f"{folder}: holds a finished run; replace it with --overwrite, or give another -o")
