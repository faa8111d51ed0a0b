"""The run's folder as a command line names it: what may not stand there, and what may not be said beside --resume."""

from __future__ import annotations

from pathlib import Path

import typer

from mixling.errors import ConfigError


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
    from mixling.runs import RUN_FILE
    from mixling.runs.config import is_finished
    from mixling.runs.folder import WRITTEN

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
