"""Typer commands from functions that take dataclasses of options, with grouped and colored help."""

from __future__ import annotations

import copy
import dataclasses
import functools
import inspect
import os
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any, get_args, get_type_hints

import typer
from typer.core import TyperCommand, TyperGroup

from mixling.cli.examples import EXAMPLES, FIRST_OPTIONS
from mixling.errors import ConfigError, shown
from mixling.limits import OF_NUMPY, require_memory

DATA, MODEL, TRAINING, OUTPUT = PANELS = ("Data", "Model", "Training", "Output")
"""The groups of a command's help, in order; arguments and options without a group come first."""

_METAVARS = {int: "N", float: "X", str: "TEXT"}
_PANEL = "rich_help_panel"  # attribute of options; click's own --help has none in some versions of typer
ALL_OPTIONS = "mixling.all_options"  # key of a context whose help has all options
_VALUE = re.compile(r"[a-z][a-z0-9_-]*")


def with_options(function: Callable[..., None]) -> Callable[..., None]:
    """Return a function with one parameter per option, as typer needs it, for one that takes dataclasses of options.

    The fields of the dataclasses are annotated like parameters of typer commands. The group of an option in the help is
    the `panel` of the class that first declares it.
    """
    hints = get_type_hints(function, include_extras=True)
    records = {name: hint for name, hint in hints.items() if isinstance(hint, type) and dataclasses.is_dataclass(hint)}
    parameters: list[inspect.Parameter] = []
    for name, parameter in inspect.signature(function).parameters.items():
        if name in records:
            parameters += _parameters(records[name])
        else:
            parameters.append(parameter.replace(annotation=hints[name], kind=inspect.Parameter.KEYWORD_ONLY))
    parameters = sorted(map(_with_choices, map(_with_metavar, parameters)), key=_panel_index)

    @functools.wraps(function)
    def command(**values: Any) -> None:
        require_memory(OF_NUMPY)
        for parameter in parameters:
            value = values.get(parameter.name)
            for item in value if isinstance(value, list | tuple) else (value,):
                if isinstance(item, float) and not -float("inf") < item < float("inf"):
                    raise ConfigError(f"{_written(parameter)}: got {item}; allowed: a finite number")
                if isinstance(item, str | Path) and "\0" in str(item):
                    raise ConfigError(f"{_written(parameter)}: got {shown(str(item))}; allowed: a text without NUL")
        for name, kind in records.items():
            values[name] = kind(**{field.name: values.pop(field.name) for field in dataclasses.fields(kind)})
        function(**values)

    command.__annotations__ = {}
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return command


def given_options(record: Any) -> list[str]:
    """Return the names of arguments and options whose values are not the defaults, as the user writes them."""
    given = []
    for parameter in sorted(_parameters(type(record)), key=_panel_index):
        if getattr(record, parameter.name) != parameter.default:
            given.append(_written(parameter))
    return given


def _written(parameter: inspect.Parameter) -> str:
    """Return the name of an argument or option as the user writes it."""
    _, info = get_args(parameter.annotation)
    names = (info.default, *(info.param_decls or ()))  # in annotations, typer's `default` is the first name
    options = [name for name in names if isinstance(name, str) and name.startswith("--")]
    return options[0] if options else str(info.metavar).removesuffix("...")


def _parameters(record: type) -> Iterator[inspect.Parameter]:
    hints = get_type_hints(record, include_extras=True)
    for field in dataclasses.fields(record):
        kind, info = get_args(hints[field.name])
        if isinstance(info, type(typer.Option())):
            owner = next(base for base in reversed(record.__mro__) if field.name in inspect.get_annotations(base))
            info = copy.copy(info)
            info.rich_help_panel = getattr(owner, "panel", None)
        default = inspect.Parameter.empty if field.default is dataclasses.MISSING else field.default
        annotation = Annotated[kind, info]  # type: ignore[valid-type]
        yield inspect.Parameter(field.name, inspect.Parameter.KEYWORD_ONLY, annotation=annotation, default=default)


def _with_metavar(parameter: inspect.Parameter) -> inspect.Parameter:
    """Return a parameter whose value is called N, X or TEXT in the help if it has no name of its own."""
    kind, info = get_args(parameter.annotation)
    metavar = next((name for type_, name in _METAVARS.items() if type_ in (kind, *get_args(kind))), None)
    if info.metavar is not None or metavar is None or not isinstance(info, type(typer.Option())):
        return parameter
    info = copy.copy(info)
    info.metavar = metavar
    return parameter.replace(annotation=Annotated[kind, info])


def _with_choices(parameter: inspect.Parameter) -> inspect.Parameter:
    """Return a parameter with shell completion of the values that its metavar lists, such as `error|skip`."""
    kind, info = get_args(parameter.annotation)
    values = (info.metavar or "").split("|")
    if len(values) < 2 or info.autocompletion is not None or not all(map(_VALUE.fullmatch, values)):
        return parameter
    info = copy.copy(info)
    info.autocompletion = lambda: values
    return parameter.replace(annotation=Annotated[kind, info])


def _panel_index(parameter: inspect.Parameter) -> int:
    panel = next((info.rich_help_panel for info in get_args(parameter.annotation)[1:]), None)
    return -1 if panel is None else PANELS.index(panel)


class Command(TyperCommand):
    """A command whose help has a section for each group of options."""

    def get_params(self, ctx: Any) -> list[Any]:
        params: list[Any] = super().get_params(ctx)
        if any(getattr(param, _PANEL, None) for param in params):  # put --help into the last section
            setattr(params[-1], _PANEL, PANELS[-1])
        for param in params:
            if param.param_type_name == "argument":  # its name says what it is; typer would add its Python type
                param.display_type_rich = lambda ctx: None
        return params

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        known = {name for param in self.get_params(ctx) for name in param.opts}
        for given in args:
            if given == "--":
                break
            option = given.split("=", 1)[0]
            if option.startswith("--") and option not in known and "--set" in known:
                from mixling.cli.option_keys import key_of_option

                if key := key_of_option(option, self.name or "", args):
                    ctx.fail(f"No such option: {option}; set its key: --set {key}=VALUE")
        order = self.make_parser(ctx).parse_args(args=list(args))[2]
        for param in order:
            is_single = param.param_type_name == "option" and not (param.multiple or getattr(param, "is_flag", False))
            if is_single and order.count(param) > 1:
                ctx.fail(
                    f"Option '{max(param.opts, key=len)}' takes one value, and is given {order.count(param)} times."
                )
        return super().parse_args(ctx, args)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        sections: dict[str, list[tuple[str, str]]] = {}
        first = None if ctx.meta.get(ALL_OPTIONS) else FIRST_OPTIONS.get(self.name or "")
        for param in self.get_params(ctx):
            if first is not None and param.name not in (*first, "help"):
                continue
            if (record := param.get_help_record(ctx)) is not None:
                title = getattr(param, _PANEL, None) or f"{param.param_type_name.title()}s"
                sections.setdefault(title, []).append(record)
        for title, records in sections.items():
            with formatter.section(title):
                formatter.write_dl(records)
        if first is not None:
            formatter.write(f"\nAll options: mixling help {self.name}\n")

    def format_help_text(self, ctx: Any, formatter: Any) -> None:
        first, _, rest = inspect.cleandoc(self.help or "").partition("\n\n")
        formatter.write(f"\n  {first}\n\n")
        for line in EXAMPLES.get(self.name or "", ()):
            formatter.write(f"    {line}\n")  # whole, so that it can be pasted
        if rest and (self.name not in FIRST_OPTIONS or ctx.meta.get(ALL_OPTIONS)):
            formatter.write("\n")
            with formatter.indentation():
                formatter.write_text(rest)

    def get_help(self, ctx: Any) -> str:
        return _colored(super().get_help(ctx))


class Group(TyperGroup):
    """The group of all commands, whose help has a section for each group of commands."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        width = max(map(len, self.commands))
        limit = formatter.width - 6 - width
        sections: dict[str, list[tuple[str, str]]] = {}
        for name, command in self.commands.items():
            record = name.ljust(width), command.get_short_help_str(limit)
            sections.setdefault(getattr(command, _PANEL), []).append(record)
        for title, records in sections.items():
            with formatter.section(title):
                formatter.write_dl(records)

    def get_help(self, ctx: Any) -> str:
        return _colored(super().get_help(ctx))


_COLORS = (
    r"(?m)^(?P<bold>Usage:|[A-Z]\w+:$)",
    r"(?m)^  (?P<cyan>(?:-\w, )?--[\w-]+)(?: (?P<yellow>\S.*?))?(?:  |$)",
    r"(?m)^  (?P<cyan>[\w.]+)(?: (?P<yellow><[^>]+>))?  +\S",  # arguments and commands; sentences have single spaces
    r"(?P<bold>`[^`]+`)",
)


def _colored(text: str) -> str:
    """Color a help text if standard output is a terminal and NO_COLOR is not set."""
    if not sys.stdout.isatty() or os.environ.get("NO_COLOR"):
        return text
    from rich.console import Console
    from rich.text import Text

    shown = Text(text)
    for pattern in _COLORS:
        shown.highlight_regex(pattern)
    console = Console(force_terminal=True, highlight=False)
    with console.capture() as captured:
        console.print(shown, soft_wrap=True, end="")
    return captured.get()
