"""What `mixling train FILE` does where nothing else is given: columns, the folder of the run, and rows to test on."""

from __future__ import annotations

import itertools
import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from mixling.cli.output import wrapped
from mixling.errors import ConfigError, DataError, command_line, printable, shown

if TYPE_CHECKING:
    from mixling.cli.commands.train import TrainOptions
    from mixling.cli.training_options import LabeledDataOptions
    from mixling.data.guess import Guess, TableColumn

_TASKS = (None, "classification", "multi_label", "regression")  # that read a text and a label
_O = TypeVar("_O", bound="LabeledDataOptions")
_SHOWN = 4  # columns that a message names
_FRACTION, _FRACTION_OF_FEW = 0.1, 0.2  # of the rows, or of fewer than `ROWS`, that are held out to test on
_LEAST = 50  # rows; of fewer, none are held out


def with_columns(options: _O, command: str) -> tuple[_O, list[str]]:
    """Return options with the columns of text and label, and lines that say how they were found.

    On a terminal, the user is asked where the rows do not say which column it is.

    Raises:
        ConfigError: they do not say it, and nobody can be asked; the message has commands to choose from.
        DataError: no column looks like one of the two, or the first line has no names.
    """
    named = {key for key, value in options.columns().items() if value is not None}
    if not options.files or named - {"text", "label"} or options.task not in _TASKS:
        return options, []
    from mixling.data.guess import MOST_LABELS, ROWS, guess_columns

    file = options.files[0]
    if file.startswith("hf:") or not Path(file).is_file():
        return options, []
    guess = guess_columns(file, text=options.text, label=options.label)
    if guess is None or (len(guess.label) > 1 and all(column.marks for column in guess.label)):
        return options, []  # of the latter, the reader says how columns of 0 and 1 are given
    if not guess.has_header:
        first = ", ".join(map(shown, guess.columns[:2]))
        raise DataError(f"its first line must name the columns, such as text,label; it has {first}", path=file, line=1)
    if not guess.text or not guess.label:
        key = "text" if not guess.text else "label"
        looks = "words that differ from row to row" if key == "text" else "values that repeat"
        columns = ", ".join(map(shown, guess.columns))
        command_for = f"{command_line('mixling', command, file)} --text COLUMN --label COLUMN"
        got = f"no column looks like the {key}, with {looks}; the columns are {columns}"
        raise DataError(f"{got}; name both: {command_for}", path=file)
    text = _chosen("text", guess.text, guess, command, file)
    label = _chosen("label", guess.label, guess, command, file, text=text.name)
    if label.values > MOST_LABELS:
        raise ConfigError(
            f"{file}: column {shown(label.name)} has {label.values:,} different values in {guess.rows:,} rows; if it "
            f"is the label: {command_line('mixling', command, file, '--text', text.name, '--label', label.name)}"
        )
    pair = guess.text_pair
    first = "the first " if guess.rows == ROWS else ""
    of_label = f"{label.name} ({guess.why_label}, {label.values} in {first}{guess.rows:,} rows)"
    line = f"text: column {text.name} ({guess.why_text})" + (f", with {pair.name}" if pair else "")
    if guess.others:
        of_label += f"; not: {', '.join(guess.others)}"
    options = replace(options, text=text.name, label=label.name, text_pair=None if pair is None else pair.name)
    return options, [f"{line}; label: column {of_label}"]


def _chosen(
    key: str, columns: Sequence[TableColumn], guess: Guess, command: str, file: str, *, text: str | None = None
) -> TableColumn:
    if len(columns) == 1:
        return columns[0]
    if sys.stdin.isatty() and sys.stdout.isatty():
        from rich.console import Console
        from rich.prompt import Prompt

        console, names = Console(stderr=True), {str(number): column for number, column in enumerate(columns, 1)}
        console.print(f"Which column is the {key}?", markup=False)
        for number, column in names.items():
            console.print(f"  {number}  {printable(column.name)} ({column.values:,} different values)", markup=False)
        return names[Prompt.ask("Its number", choices=[*names], console=console)]
    about = [f"{shown(column.name)} ({column.values:,} different values)" for column in columns[:_SHOWN]]
    more = len(columns) - len(about)
    known = () if text is None else ("--text", text)
    commands = [command_line("mixling", command, file, *known, f"--{key}", column.name) for column in columns[:_SHOWN]]
    listed = ", ".join(about) + (f" and {more} more" if more > 0 else "")
    raise ConfigError(f"{file}: the {key} may be column {listed}; choose one:\n  " + "\n  ".join(commands))


def completed(options: TrainOptions) -> TrainOptions:
    """Return options with columns, a folder and rows to test on, where they are not given, and print what was added.

    Raises:
        ConfigError: the rows do not say which columns are meant.
    """
    given = options
    options, lines = with_columns(options, "train")
    if options.out is None and given.files:
        options = replace(options, out=_free_folder(given.files[0]))
        if not options.test and options.test_fraction is None:
            options = replace(options, test_fraction=_test_fraction(given.files[0]) or None)
    added: list[str | Path] = []
    for name in ("text", "text_pair", "label", "test_fraction", "out"):
        value = getattr(options, name)
        if value is not None and value != getattr(given, name):
            added += ["-o" if name == "out" else f"--{name.replace('_', '-')}", str(value)]
    if added and os.environ.get("RANK", "0") == "0":
        words = sys.argv[1:] if sys.argv[1:2] == ["train"] else ["train", *(options.files or ())]
        end = words.index("--") if "--" in words else len(words)
        for line in lines:
            print(wrapped(printable(line), sys.stderr), file=sys.stderr)
        print(printable(command_line("mixling", *words[:end], *added, *words[end:])), file=sys.stderr)
    return options


def _free_folder(file: str) -> Path:
    """Return a folder that does not exist, named after a file."""
    stem = file.rstrip("/").replace(":", "/").rsplit("/", 1)[-1].split(".")[0].lstrip("-") or "data"
    names = (Path(f"{stem}-model" + (f"-{number}" if number > 1 else "")) for number in itertools.count(1))
    return next(path for path in names if not os.path.lexists(path))


def _test_fraction(file: str) -> float:
    """Return which fraction of the rows of a file is held out: more of few, and none of very few."""
    from mixling.data.guess import ROWS, first_rows

    if Path(file).is_dir():
        from mixling.data.readers.text_folder import holds_images

        return 0.0 if holds_images(Path(file)) else _FRACTION
    if not Path(file).is_file():
        return _FRACTION
    number = len(first_rows(file))
    return 0.0 if number < _LEAST else _FRACTION_OF_FEW if number < ROWS else _FRACTION
