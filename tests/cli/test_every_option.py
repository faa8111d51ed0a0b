"""Each option of each command with values that are wrong for its type: one line that names it, never a traceback."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.core import TyperArgument
from typer.main import get_command

from mixling.cli import build_app
from mixling.cli.main import COMMANDS

from .conftest import Call

# What a command needs beside the option; the files do not exist, so that nothing begins.
NEEDED = {
    "train": ["none.csv"], "tune": ["none.csv"], "distill": ["none.csv"], "evaluate": ["none", "none.csv"],
    "compare": ["none.csv"], "explain": ["none", "a text"], "audit": ["none.csv"], "suggest": ["none", "none.csv"],
    "show": ["none"], "predict": ["none", "a text"], "serve": ["none"], "export": ["none"], "push": ["none", "a/b"],
    "pretrain": ["none.txt"], "generate": ["none", "a"], "inspect": ["none", "a text"],
    "cost": ["none"], "encode": ["none", "none.csv"], "similar": ["none", "a text"], "dedup": ["none.csv"],
    "label": ["none.csv"], "drift": ["none", "none.csv"], "bench": ["none"],
}  # fmt: skip
NOT_OF_TYPE = {"int": ("x", "1.5", "1e3", "", "0x10"), "float": ("x", "", "nan", "inf", "-inf", "1e400")}
NUL = "a\0b"
NUMBERS = ("-1", "0", "9" * 30, "9" * 5000, "1e-400", "٣")
TEXTS = ("", ",", "1e400", "a\nb", "\udc80", "a" * 5000, "/", "/dev/zero", "a.b.c=1")


def cases(command: str) -> Iterator[tuple[str, str, Callable[[str], list[str]]]]:
    """Yield the type and name of each argument and option with a value, and what makes a command line of one."""
    group = get_command(build_app((command,), completion=False))
    parameters: list[Any] = group.commands[command].params  # type: ignore[attr-defined]
    arguments = [parameter for parameter in parameters if isinstance(parameter, TyperArgument)]
    needed = NEEDED.get(command, [])
    for parameter in parameters:
        kind = parameter.type_descriptor.annotation
        if kind is bool:
            continue
        others = ["-o", "out"] * any(
            "-o" in other.opts and other.required for other in parameters if other is not parameter
        )
        if parameter in arguments:
            at = arguments.index(parameter)
            name = parameter.metavar.removesuffix("...")

            def line(value: str, at: int = at, others: list[str] = others) -> list[str]:
                return [command, *others, "--", *needed[:at], value, *needed[at + 1 :]]
        else:
            name = next(name for name in parameter.opts if name.startswith("--"))

            def line(value: str, name: str = name, others: list[str] = others) -> list[str]:  # type: ignore[misc]
                return [command, *needed, *others, f"{name}={value}"]

        yield getattr(kind, "__name__", str(kind)), name, line


@functools.cache
def first_commands() -> dict[str, str]:
    """Return the first command that has an option, by the option's name."""
    found: dict[str, str] = {}
    for command in NEEDED:
        for _, name, _ in cases(command):
            found.setdefault(name, command)
    return found


def errors_of(text: str) -> list[str]:
    return re.findall(r"(?im)^error: .*", text)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_value_that_is_none_of_the_type_is_one_line_that_names_the_option(
    command: str, call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for kind, name, line in cases(command):
        for value in NOT_OF_TYPE.get(kind, (NUL,)):
            done = call(*line(value))
            assert (done.code, len(errors_of(done.err))) == (2, 1), (name, value, done)
            assert name.lower() in done.err.lower(), (name, value, done.err)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
@pytest.mark.parametrize("command", NEEDED)
def test_no_value_ends_in_a_traceback(
    command: str, call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for kind, name, line in cases(command):
        values = NUMBERS if kind in NOT_OF_TYPE else TEXTS
        number = list(NEEDED).index(command)
        # The other commands that have an option read it alike: each has another two of the values.
        for value in values if first_commands()[name] == command else (*values, *values)[number % len(values) :][:2]:
            done = call(*line(value))
            assert (done.code, len(errors_of(done.err))) == (2, 1), (name, value, done)
            assert "Traceback" not in done.err
