"""The entry point of the command line: commands, and exit codes; heavy modules are imported later."""

from __future__ import annotations

import atexit
import gc
import importlib
import os
import sys
from collections.abc import Sequence

import typer
from typer.main import get_command

from mixling.cli.command import Command, Group, with_options
from mixling.cli.output import open_closed_streams, standard_output
from mixling.errors import Interrupted, UserError, printable
from mixling.limits import explained
from mixling.training.interrupts import begin_to_listen, was_interrupted

# The groups of the help. Each command is a file of that name, which imports heavy modules when the command runs.
GROUPS = {
    "Start": ("demo", "sample", "help"),
    "Train": ("train", "tune", "distill", "config"),
    "Understand": ("evaluate", "compare", "explain", "audit", "label", "suggest", "drift", "show"),
    "Vectors": ("encode", "similar", "dedup"),
    "Serve": ("predict", "serve", "export", "push"),
    "Research": ("models", "pretrain", "generate", "inspect", "cost", "bench"),
}
COMMANDS = tuple(name for names in GROUPS.values() for name in names)

# The extra that installs each optional package.
EXTRAS = {
    "torch": "torch",
    "jaxtyping": "torch",
    "onnx": "torch",
    "onnxruntime": "onnx",
    "onnxscript": "torch",
    "sacrebleu": "torch",
    "google": "subwords",
    "tokenizers": "subwords",
    "pyarrow": "parquet",
    "sklearn": "estimators",
    "matplotlib": "plots",
    "optuna": "tune",
    "yaml": "hub",
    "starlette": "serve",
    "uvicorn": "serve",
    "httptools": "serve",
    "prometheus_client": "serve",
    "fsspec": "scale",
    "ray": "scale",
}


def build_app(commands: Sequence[str] = COMMANDS, *, completion: bool = True) -> typer.Typer:
    """Return the application with these commands.

    Args:
        completion: add options that install shell completion.
    """
    app = typer.Typer(
        help="Small, fast text models: train on labeled rows and predict, without PyTorch.",
        cls=Group,
        no_args_is_help=True,
        add_completion=completion,
        rich_markup_mode=None,  # plain errors; `Command` colors the help
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_options)
    for name in commands:
        panel = next(group for group, names in GROUPS.items() if name in names)
        home = "mixling.research.commands" if panel == "Research" else "mixling.cli.commands"
        function = getattr(importlib.import_module(f"{home}.{name}"), f"{name}_command")
        app.command(name, cls=Command, rich_help_panel=panel)(with_options(function))
    return app


def run() -> None:
    """Run the command line.

    Exit codes: 2 for a user's mistake, reported in one line; 128 plus the number of a signal.
    """
    open_closed_streams()
    atexit.register(gc.freeze)  # skips a garbage collection over all modules at exit
    # Searching for plugins would read the metadata of every installed package at each start.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "1")
    # Threads that wait by spinning take the cores from whatever else runs: beside eight other processes on two cores,
    # 150 steps of training took 114 s instead of 7.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    first = sys.argv[1] if len(sys.argv) > 1 else ""
    if _is_path(first):
        sys.argv.insert(1, "train")  # mixling FILE
    elif first not in COMMANDS and os.path.exists(first):
        _leave(f"error: {_no_command(first)}", 2)
    named = tuple(name for name in sys.argv[1:2] if name in COMMANDS)  # building all takes as long as a prediction
    try:
        try:
            gc.disable()  # until a command begins: imports leave no garbage
            begin_to_listen()
            build_app(named or COMMANDS, completion=not named)(prog_name="mixling")
        finally:
            gc.enable()
            with standard_output():
                sys.stdout.flush()
    except UserError as error:
        _leave(f"error: {_possible(str(error), named)}", 2)
    except Interrupted as error:
        _leave(str(error), error.exit_code)
    except KeyboardInterrupt:
        _leave("interrupted", 130)
    except BrokenPipeError:  # such as `| head`
        sys.exit(1)
    except ModuleNotFoundError as error:
        module = (error.name or "").partition(".")[0]
        if module not in EXTRAS:
            raise
        from mixling.installation import install_command

        _leave(f"error: this needs {module}, which is not installed: {install_command(EXTRAS[module])}", 2)
    except BaseException as error:  # panics of libraries in Rust are no exceptions
        # A library may make another exception of KeyboardInterrupt.
        if not isinstance(error, SystemExit) and was_interrupted():
            _leave("interrupted", 130)
        if not (reason := explained(error)):
            raise
        _leave(f"error: {reason}", 2)


def _is_path(name: str) -> bool:
    """Return whether an argument is a path with a suffix or a separator, or has the name of a file of rows.

    A word is none, though a folder may have that name: it may be a command that is misspelled.
    """
    if name.endswith((".csv", ".tsv", ".jsonl", ".json", ".parquet", ".conll")):
        return True
    return any(sign in name for sign in (".", "/", os.sep)) and os.path.exists(name)


def _no_command(name: str) -> str:
    """Return why a word that is a file's or folder's name is no command, and what was meant."""
    import difflib
    import shlex

    is_run = any(os.path.exists(os.path.join(name, file)) for file in ("run.json", "model.onnx"))
    paste = f"mixling show {shlex.quote(name)}" if is_run else f"mixling train {shlex.quote(name)}"
    near = "".join(f"`mixling {command}`, or " for command in difflib.get_close_matches(name, COMMANDS, 1))
    kind = "the folder" if os.path.isdir(name) else "the file"
    return f"no such command: {printable(name)}; did you mean {near}{kind} of that name, `{printable(paste)}`?"


def _possible(message: str, named: Sequence[str]) -> str:
    """Return a message without the advice to skip bad rows if the command cannot."""
    if "--on-bad-row" not in message or not named:
        return message
    from mixling.data.readers.rows import SKIP

    command = get_command(build_app(named, completion=False)).commands[named[0]]  # type: ignore[attr-defined]
    can_skip = any("--on-bad-row" in parameter.opts for parameter in command.params)
    return message if can_skip else message.removesuffix(SKIP).rstrip(" ,")


def _leave(message: str, code: int) -> None:
    try:
        print(printable(message, keep="\n"), file=sys.stderr)
    except OSError:  # of a full disk
        sys.stderr = None  # else Python flushes it at the end, and changes the code
    sys.exit(code)


def _version(requested: bool) -> None:
    if requested:
        from importlib.metadata import PackageNotFoundError, version

        from mixling.installation import install_command
        from mixling.version import __version__

        try:
            torch = f"with torch {version('torch')}"
        except PackageNotFoundError:
            torch = f"without torch, which models of other kinds need: {install_command('torch')}"
        typer.echo(f"mixling {__version__}, {torch}")
        raise typer.Exit


def _options(
    version: bool = typer.Option(False, "--version", callback=_version, is_eager=True, help="Show the version."),
) -> None:
    """Small, fast text models: train on labeled rows and predict, without PyTorch."""
    gc.enable()
