"""Checks of the run folder that a command line names, and of options given with --resume."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator
from pathlib import Path

from mixling.cli.command import given_options
from mixling.cli.training_options import RunOptions
from mixling.errors import ConfigError, Interrupted, ModelFileError, command_line
from mixling.training.interrupts import Terminated, terminations

_BESIDE_RESUME = ("--resume", "--out", "--verbose")  # options that do not change the result


@contextlib.contextmanager
def interruptible(folder: Path) -> Iterator[None]:
    """Report how to resume the run in a folder if a signal is received before or after its training steps.

    Raises:
        Interrupted: SIGINT or SIGTERM was received.
    """
    try:
        with terminations():
            yield
    except KeyboardInterrupt as error:
        from mixling.artifacts.resume import unfinished_run

        run = unfinished_run(folder)
        hint = "nothing was changed" if run is None else f"resume with: {run.command}"
        if run is not None and run.folder != folder:
            hint += f"\n{folder}: its model is unchanged"
        signum = signal.SIGTERM if isinstance(error, Terminated) else signal.SIGINT
        raise Interrupted(f"interrupted; {hint}", signum=signum) from None


def check_run_folder(out: Path, *, resume: bool, overwrite: bool) -> None:
    """Check the folder of a run before anything heavy is imported.

    Raises:
        ConfigError: options exclude each other, or there is a file instead of a folder.
    """
    if resume and overwrite:
        raise ConfigError("--resume and --overwrite exclude each other: resume the run, or replace it")
    refuse_file(out)


def refuse_beside_resume(options: RunOptions) -> None:
    """Refuse options with --resume, which takes them from the folder, but for those that do not change the result.

    Raises:
        ConfigError: an option is given.
    """
    if also := [name for name in given_options(options) if name not in _BESIDE_RESUME]:
        raise ConfigError(f"--resume takes all options from {options.out}; leave out {', '.join(also)}")


def refuse_unfinished(model: str) -> None:
    """Refuse the folder of an unfinished run, which has no model yet.

    Raises:
        ModelFileError: it is one; the message has the commands to finish the run or export its best model so far.
    """
    from mixling.artifacts.files import SETUP_FILE
    from mixling.artifacts.resume import unfinished_run
    from mixling.runtime.quick import ONNX_FILE

    if not Path(model).is_dir() or (Path(model) / ONNX_FILE).exists() or (run := unfinished_run(model)) is None:
        return
    of = "" if run.total_steps is None else f" at step {run.step:,} of {run.total_steps:,}"
    export = command_line("mixling", "export", model, "-o", "model.onnx")
    best = f", or export its best model so far: {export}" if run.best and (run.folder / SETUP_FILE).exists() else ""
    raise ModelFileError(f"{model}: holds an unfinished run{of}; finish it: {run.command}{best}")


def refuse_file(folder: Path) -> None:
    """Refuse a path at which there cannot be a folder.

    Raises:
        ConfigError: the path, or one of its parents, is a file.
    """
    for path in (folder, *folder.absolute().parents):
        if path.is_dir():
            return
        if path.exists():
            raise ConfigError(f"{path}: is a file; -o names the folder of the run")


def refuse_old_run(folder: Path) -> None:
    """Refuse to overwrite a run, or files with the names of a run's.

    Raises:
        ConfigError: the folder holds some; the message states what to do.
    """
    from mixling.artifacts.files import RUN_FILE, WRITTEN, is_finished
    from mixling.artifacts.resume import unfinished_run

    if not (folder / RUN_FILE).exists():
        if existing := [name for name in WRITTEN if (folder / name).exists()]:
            raise ConfigError(
                f"{folder}: is not a run but holds {', '.join(existing)}, which a run would replace; give another "
                "folder with -o, or replace the files with --overwrite"
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
            f"{run.command}, or start over with --overwrite"
        )
    raise ConfigError(f"{folder}: holds a finished run; replace it with --overwrite, or give another -o")
