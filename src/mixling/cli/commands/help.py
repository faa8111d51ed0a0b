"""`mixling help`: the help of a command, or the options about a topic."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from mixling.cli.output import put
from mixling.errors import ConfigError


def help_command(
    name: Annotated[
        str | None, typer.Argument(metavar="COMMAND|TOPIC", help="A command, or a word such as abstain.")
    ] = None,
) -> None:
    """Show all options of a command, or find some by a word."""
    from typer.main import get_command

    from mixling.cli.command import ALL_OPTIONS
    from mixling.cli.main import build_app
    from mixling.errors import near_miss

    group: Any = get_command(build_app())
    context = group.make_context("mixling", [], resilient_parsing=True)
    if name is None or name in group.commands:
        command = group if name is None else group.commands[name]
        inner = context if name is None else command.make_context(name, [], parent=context, resilient_parsing=True)
        inner.meta[ALL_OPTIONS] = True
        put(command.get_help(inner) + "\n", styled=True)
        return
    found = []
    for title, command in group.commands.items():
        inner = command.make_context(title, [], parent=context, resilient_parsing=True)
        records = [parameter.get_help_record(inner) for parameter in command.params]
        found += [f"mixling {title}: {command.get_short_help_str(80)}"] if _about(name, title, command.help) else []
        found += [f"mixling {title} {' '.join(pair)}" for pair in records if pair is not None and _about(name, *pair)]
    if not found:
        hint = near_miss(name, group.commands, cutoff=0.6)
        raise ConfigError(f"help: got {name!r}, which no command or option is about; {hint}")
    put("\n".join(found) + "\n")


def _about(word: str, *texts: str | None) -> bool:
    return any(word.casefold() in (text or "").casefold() for text in texts)
