"""The command line's start: it knows the commands, and how each kind of end is told; work is imported late."""

from __future__ import annotations

import atexit
import gc
import importlib
import os
import sys
from collections.abc import Sequence

import typer

from mixling.cli.command import Command, Group, with_options
from mixling.cli.output import open_closed_streams, standard_output
from mixling.errors import Interrupted, UserError, printable

# One file a command. Named, not imported: the files are light, what they do is imported when a command runs.
COMMANDS = (
    "train",
    "pretrain",
    "predict",
    "generate",
    "evaluate",
    "show",
    "inspect",
    "export",
    "demo",
    "models",
    "config",
    "cost",
    "vectors",
    "distill",
    "compare",
)

# The extra of each package that a base install lacks.
EXTRAS = {
    "torch": "train",
    "jaxtyping": "train",
    "onnx": "train",
    "onnxscript": "train",
    "pyarrow": "train",
    "sacrebleu": "train",
    "sklearn": "train",
    "scipy": "train",
    "threadpoolctl": "train",
    "matplotlib": "train",
}


def build_app(commands: Sequence[str] = COMMANDS, *, completion: bool = True) -> typer.Typer:
    """Return the application with these commands.

    Args:
        completion: offer to install the completion of the shell.
    """
    app = typer.Typer(
        help="Small, fast text models: train on labeled rows, predict without torch.",
        cls=Group,
        no_args_is_help=True,
        add_completion=completion,
        rich_markup_mode=None,  # of errors, which are plain; help is coloured by `Command`
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_options)
    for name in commands:
        function = getattr(importlib.import_module(f"mixling.cli.{name}"), name)
        app.command(name, cls=Command)(with_options(function))
    return app


def run() -> None:
    """The entry point: a user's mistake is one line and exit code 2, a signal 128 and its number, else a traceback."""
    open_closed_streams()
    atexit.register(gc.freeze)  # or the interpreter looks for garbage among all modules before it ends
    # Looking for plugins would read the metadata of every installed package at each start.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "1")
    asked = tuple(name for name in sys.argv[1:2] if name in COMMANDS)  # building the others takes as long as an answer
    try:
        try:
            gc.disable()  # until a command begins: what importing leaves is no garbage
            build_app(asked or COMMANDS, completion=not asked)(prog_name="mixling")
        finally:
            gc.enable()
            with standard_output():
                sys.stdout.flush()
    except UserError as error:
        _leave(f"error: {error}", 2)
    except Interrupted as error:
        _leave(str(error), error.exit_code)
    except KeyboardInterrupt:
        _leave("interrupted", 130)
    except BrokenPipeError:  # `| head` has seen enough
        sys.exit(1)
    except ModuleNotFoundError as error:
        module = (error.name or "").partition(".")[0]
        if module not in EXTRAS:
            raise
        _leave(f'error: this needs {module}, which is not installed: pip install "mixling[{EXTRAS[module]}]"', 2)


def _leave(message: str, code: int) -> None:
    print(printable(message, keep="\n"), file=sys.stderr)
    sys.exit(code)


def _version(asked: bool) -> None:
    if asked:
        from mixling.version import __version__

        typer.echo(__version__)
        raise typer.Exit


def _options(
    version: bool = typer.Option(False, "--version", callback=_version, is_eager=True, help="Show the version."),
) -> None:
    """Small, fast text models: train on labeled rows, predict without torch."""
    gc.enable()
