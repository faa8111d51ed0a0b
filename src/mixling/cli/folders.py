"""The run's folder as a command line names it: what may not stand there, and what may not be said beside --resume."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import typer

from mixling.cli.output import time_budget_line
from mixling.errors import ConfigError, Interrupted

if TYPE_CHECKING:
    from mixling.runs.pair_config import PairRunConfig
    from mixling.runs.pretrain import PretrainConfig
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
    """Begin a run in the folder of the command line, or go on with the one there.

    Args:
        schema, kind: of the run's record.
        settle: the configuration of a new run.
        run: takes the configuration, `folder`, `resume`, `processes`, `observer` and `say`.

    Returns:
        what `run` gives; None where there is nothing to do, and in processes other than the main one.
    """
    from mixling.runs.config import read_record
    from mixling.runs.record import tidy
    from mixling.training.distributed import processes
    from mixling.training.progress import TrainingProgress

    out, resume, overwrite = (context.params[name] for name in ("out", "resume", "overwrite"))
    if resume and overwrite:
        raise ConfigError("--resume and --overwrite exclude each other: go on with the run, or replace it")
    refuse_file(out)
    with processes() as ranks:
        terminal = TrainingProgress(silent=not ranks.is_main)
        if resume:
            settled, finished = read_record(out, schema, kind=kind)
            if also := given_beside(context, "resume", "out"):
                raise ConfigError(f"with --resume all comes from {out}; leave out {', '.join(also)}")
            if finished:
                tidy(out, settled.corpus)
                terminal.say(f"{out}: this run is finished; there is nothing to go on with")
                return None
        else:
            if ranks.is_main and not overwrite:
                refuse_old_run(out)
            settled = settle(terminal)
        if settled.train.time_budget is not None:
            terminal.say(time_budget_line(settled.train.time_budget))
        try:
            done = run(settled, folder=out, resume=resume, processes=ranks, observer=terminal, say=terminal.say)
        except KeyboardInterrupt:  # before or after the steps, which see to it themselves
            raise interrupted(f"mixling {context.info_name}", out) from None
    return None if done is None else (done, terminal)


def interrupted(command: str, folder: Path) -> Interrupted:
    """What is told of a command that was interrupted: how to go on with the run, if it has begun and not ended."""
    from mixling.runs.artifact import RUN_FILE, is_finished

    begun = (folder / RUN_FILE).exists() and not is_finished(folder)
    told = f"go on with: {command} --resume -o {folder}" if begun else "nothing was changed"
    return Interrupted(f"interrupted; {told}", signum=signal.SIGINT)


def given_beside(context: typer.Context, *names: str) -> list[str]:
    """The other options and arguments of the command line, as the user writes them."""
    given = []
    for parameter in context.command.params:
        source = context.get_parameter_source(str(parameter.name))
        if parameter.name not in names and source is not None and source.name == "COMMANDLINE":
            given.append(parameter.opts[-1] if parameter.param_type_name == "option" else "FILES")
    return given


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
    from mixling.runs.artifact import RUN_FILE, WRITTEN, is_finished

    if not (folder / RUN_FILE).exists():
        if found := [name for name in WRITTEN if (folder / name).exists()]:
            raise ConfigError(
                f"{folder}: is no run but holds {', '.join(found)}, which a run would replace; give a folder of its "
                f"own with -o, or replace what is there with --overwrite"
            )
        return
    if is_finished(folder):
        raise ConfigError(f"{folder}: holds a finished run; replace it with --overwrite, or give another -o")
    raise ConfigError(f"{folder}: holds an unfinished run; go on with --resume, or replace it with --overwrite")
