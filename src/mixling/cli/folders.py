"""The run's folder as a command line names it: what may not stand there, and what may not be said beside --resume."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import typer

from mixling.cli.output import time_budget_line
from mixling.errors import ConfigError, Interrupted, ModelFileError, command_line
from mixling.training.interrupts import Terminated, terminations

if TYPE_CHECKING:
    from mixling.runs.pretrain import PretrainConfig
    from mixling.seq2seq.config import PairRunConfig
    from mixling.training.progress import TrainingProgress

C = TypeVar("C", "PretrainConfig", "PairRunConfig")
R = TypeVar("R")


def run_folder(
    context: typer.Context,
    *,
    schema: type[C],
    kind: str,
    settle: Callable[[TrainingProgress], C],
    run: Callable[..., R | None],
) -> tuple[R, TrainingProgress] | None:
    """Begin a run in the folder of the command line, or resume the one there.

    Args:
        schema, kind: of the run's record.
        settle: the configuration of a new run.
        run: takes the configuration, `folder`, `resume`, `processes`, `observer` and `say`.

    Returns:
        what `run` gives; None where there is nothing to do, and in processes other than the main one.
    """
    out, resume, overwrite = (context.params[name] for name in ("out", "resume", "overwrite"))
    if resume and overwrite:
        raise ConfigError("--resume and --overwrite exclude each other: resume the run, or replace it")
    refuse_file(out)
    with interruptible(out):
        from mixling.runs.config import read_record
        from mixling.runs.record import conclude, held
        from mixling.training.distributed import processes
        from mixling.training.progress import TrainingProgress

        with processes() as ranks, held(out, is_main=ranks.is_main):
            terminal = TrainingProgress(silent=not ranks.is_main)
            if resume:
                settled, finished = read_record(out, schema, kind=kind)
                refuse_beside_resume(context)
                if finished:
                    conclude(out, settled.corpus, is_main=ranks.is_main)
                    terminal.say(f"{out}: this run is finished; there is nothing to resume")
                    return None
            else:
                if ranks.is_main and not overwrite:
                    refuse_old_run(out)
                settled = settle(terminal)
            if settled.train.time_budget is not None:
                terminal.say(time_budget_line(settled.train.time_budget))
            done = run(settled, folder=out, resume=resume, processes=ranks, observer=terminal, say=terminal.say)
    return None if done is None else (done, terminal)


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


def refuse_beside_resume(context: typer.Context) -> None:
    """Refuse what a resumed run has in its folder.

    Raises:
        ConfigError: something stands beside --resume.
    """
    if also := given_beside(context, "resume", "out"):
        raise ConfigError(f"with --resume all comes from {context.params['out']}; leave out {', '.join(also)}")


def given_beside(context: typer.Context, *names: str) -> list[str]:
    """The other options and arguments of the command line, as the user writes them."""
    given = []
    for parameter in context.command.params:
        source = context.get_parameter_source(str(parameter.name))
        if parameter.name not in names and source is not None and source.name == "COMMANDLINE":
            given.append(parameter.opts[-1] if parameter.param_type_name == "option" else "FILES")
    return given


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
