"""What commands do where only FILE is given: columns of text and label, the folder to write, and rows to test on."""

from __future__ import annotations

import itertools
import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeVar

from mixling.cli.options import text_columns
from mixling.cli.output import wrapped
from mixling.errors import ConfigError, DataError, command_line, printable, shown, shown_list

if TYPE_CHECKING:
    from mixling.cli.train_options import TrainOptions
    from mixling.cli.training_options import LabeledDataOptions
    from mixling.data.guess import Guess, TableColumn

_TASKS = (None, "classification", "multi_label", "regression")  # that read a text and a label
_O = TypeVar("_O", bound="LabeledDataOptions")
_Columns = TypeVar("_Columns", bound="_LabeledFiles")
_SHOWN = 4  # columns that a message names
_LONG = 20  # characters of their values
_FRACTION = 0.1  # of the rows that are held out to test on
_FRACTION_OF_FEW = 0.2  # of fewer than `ROWS`
_LEAST = 50  # rows; of fewer, none are held out
_MOST = 20_000  # rows, about; more would only take longer to test on


class _LabeledFiles(Protocol):
    """Options that name labeled files and their columns."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def files(self) -> Sequence[str] | None: ...
    @property
    def task(self) -> str | None: ...
    @property
    def text(self) -> list[str] | None: ...
    @property
    def text_pair(self) -> str | None: ...
    @property
    def label(self) -> str | None: ...
    def columns(self) -> dict[str, Any]: ...


def with_columns(options: _Columns, command: str) -> _Columns:
    """Return options with the columns of text and label, and print how they were found.

    On a terminal, the user is asked where the rows do not say which column it is.

    Raises:
        ConfigError: they do not say it, and nobody can be asked; the message has commands to choose from.
        DataError: no column looks like one of the two, or the first line has no names.
    """
    named = {key for key, value in options.columns().items() if value is not None}
    if not options.files or named - {"text", "text_pair", "label", "features"} or options.task not in _TASKS:
        return options
    from mixling.config import parse
    from mixling.data.config import ColumnsConfig
    from mixling.data.guess import MOST_LABELS, guess_columns

    file = options.files[0]
    if file.startswith("hf:") or not Path(file).is_file():
        return options
    beside = parse(ColumnsConfig, {"features": options.columns().get("features") or ()}, where="--features").beside
    known = text_columns(options.text, options.text_pair)
    text = options.text[0] if options.text else None
    guess = guess_columns(file, text=text, text_pair=known[1:], label=options.label, beside=beside)
    if guess is None or (len(guess.label) > 1 and all(column.marks for column in guess.label)):
        return options  # of the latter, the reader says how columns of 0 and 1 are given
    if not guess.has_header and guess.text and guess.label:
        raise DataError(_without_names(guess, command, file), path=file, line=1)
    if not guess.text or not guess.label:
        key = "text" if not guess.text else "label"
        looks = "words that differ from row to row" if key == "text" else "values that repeat"
        columns = shown_list(guess.columns)
        if len(guess.columns) == 1:
            raise DataError(f"has one column, {columns}; a text and its label need two", path=file)
        command_for = f"{command_line('mixling', command, file)} --text COLUMN --label COLUMN"
        got = f"no column looks like the {key}, with {looks}; the columns are {columns}"
        raise DataError(f"{got}; name both: {command_for}", path=file)
    chosen = _chosen("text", guess.text, guess, command, file)
    label = _chosen("label", guess.label, guess, command, file, text=chosen.name)
    if label.values > MOST_LABELS:
        raise ConfigError(
            f"{file}: column {shown(label.name)} has {label.values:,} different values in {guess.rows:,} rows; if it "
            f"is the label: {command_line('mixling', command, file, '--text', chosen.name, '--label', label.name)}"
        )
    pair = guess.text_pair
    line = f"text: {chosen.name} ({guess.why_text})" + (f", with {pair.name}" if pair else "")
    line += f"; label: {label.name} ({guess.why_label}, {label.values} values)"
    if guess.others and "\n" not in wrapped(longer := f"{line}; not: {', '.join(guess.others)}", sys.stderr):
        line = longer
    texts = [chosen.name, *(known[1:] if pair is None else [pair.name])]
    if os.environ.get("RANK", "0") == "0":
        print(wrapped(printable(line), sys.stderr), file=sys.stderr)
    return replace(options, text=texts, label=label.name, text_pair=None)


def _without_names(guess: Guess, command: str, file: str) -> str:
    """Return what to do where the first line may have names or a row."""
    named = {guess.text[0].name: "text", guess.label[0].name: "label"}
    names = [named.get(name) or f"column_{number}" for number, name in enumerate(guess.columns, 1)]
    sign = "\t" if ".tsv" in Path(file).suffixes else ","
    new = str(Path(file).with_name(f"named-{Path(file).name}"))
    echo = command_line("printf", sign.join(names).replace("\t", "\\t") + "\\n")
    as_names = command_line("mixling", command, file, "--text", guess.text[0].name, "--label", guess.label[0].name)
    return (
        f"the first line may be a row, not names of columns: it has {shown(guess.label[0].name)}, as other rows have\n"
        f"  if it is a row, write names above it: ({echo}; {command_line('cat', file)}) > {command_line(new)}\n"
        f"  if it has the names: {as_names}"
    )


def _about(column: TableColumn) -> str:
    """Return the name of a column and what it has."""
    examples = ", ".join(one if len(one) <= _LONG else f"{one[:_LONG]}..." for one in column.examples)
    return f"{shown(column.name)} ({column.values:,} different values: {examples})"


def _chosen(
    key: str, columns: Sequence[TableColumn], guess: Guess, command: str, file: str, *, text: str | None = None
) -> TableColumn:
    if len(columns) == 1:
        return columns[0]
    if sys.stdin.isatty() and sys.stdout.isatty():
        from rich.console import Console
        from rich.prompt import Prompt

        console = Console(stderr=True)
        names = {str(number): column for number, column in enumerate(columns, 1)}
        console.print(f"Which column is the {key}?", markup=False)
        for number, column in names.items():
            console.print(f"  {number}  {printable(_about(column))}", markup=False)
        return names[Prompt.ask("Its number", choices=[*names], console=console)]
    about = [_about(column) for column in columns[:_SHOWN]]
    more = len(columns) - len(about)
    known = () if text is None else ("--text", text)
    commands = [command_line("mixling", command, file, *known, f"--{key}", column.name) for column in columns[:_SHOWN]]
    if key == "text" and len(columns) == 2:  # perhaps a pair
        first, second = sorted((one.name for one in columns), key=guess.columns.index)
        commands.append(command_line("mixling", command, file, "--text", first, "--text", second))
    listed = ", ".join(about) + (f" and {more} more" if more > 0 else "")
    raise ConfigError(f"{file}: the {key} may be column {listed}; choose one:\n  " + "\n  ".join(commands))


def completed(options: TrainOptions, *, of_labels: bool) -> TrainOptions:
    """Return options with columns, a folder and rows to test on, where they are not given.

    Rows to test on are held out unless files, options or a configuration say how rows are divided, or there are few.

    Args:
        of_labels: whether labels are learned, and not other texts or images.

    Raises:
        ConfigError: the rows do not say which columns are meant.
    """
    given = options
    options = with_columns(options, "train")
    if options.out is None and given.files:
        options = replace(options, out=free_folder(given.files[0], "model"))
    if of_labels and given.test_fraction is None:
        options = replace(options, test_fraction=_fraction_to_test(given, given.config, given.test))
    return options


def print_command(given: TrainOptions, options: TrainOptions) -> None:
    """Print the command with all options that `completed` has added to the given ones, if it added names."""
    from mixling.data.config import text_options

    added: list[str | Path] = []
    if options.text != given.text and options.text:
        added += text_options([name for name in options.text if name not in (given.text or ())])
    for name in ("label", "test_fraction", "out"):
        value = getattr(options, name)
        if value is not None and value != getattr(given, name):
            added += ["-o" if name == "out" else f"--{name.replace('_', '-')}", str(value)]
    is_all_named = options == replace(given, test_fraction=options.test_fraction)  # how many are held out is said later
    if added and not is_all_named and os.environ.get("RANK", "0") == "0":
        words = sys.argv[1:] if sys.argv[1:2] == ["train"] else ["train", *(options.files or ())]
        end = words.index("--") if "--" in words else len(words)
        command = printable(command_line("mixling", *words[:end], *added, *words[end:]))
        print(f"the same training, written out:\n{wrapped(command, sys.stderr)}", file=sys.stderr)


def free_folder(file: str, ending: str) -> Path:
    """Return a folder that does not exist, named after a file: FILE-ENDING, or with a number behind it."""
    stem = file.rstrip("/").replace(":", "/").rsplit("/", 1)[-1].split(".")[0].lstrip("-") or "data"
    names = (Path(f"{stem}-{ending}" + (f"-{number}" if number > 1 else "")) for number in itertools.count(1))
    return next(path for path in names if not os.path.lexists(path))


def holding_out(options: _O, *, config: str | None, test: Sequence[str] | None = None) -> _O:
    """Return options of a command without --test-fraction by which rows are held out, as by `completed`.

    Args:
        config, test: the options of these names, if the command has them.
    """
    if (fraction := _fraction_to_test(options, config, test)) is None:
        return options
    return replace(options, overrides=[*(options.overrides or ()), f"data.test_fraction={fraction}"])


def _fraction_to_test(options: LabeledDataOptions, config: str | None, test: Sequence[str] | None) -> float | None:
    """Return which fraction of the rows is held out; None if files or a configuration divide them, or there are few."""
    divided = test or options.validation or config
    named = any(one.strip().startswith("data.") for one in options.overrides or ())
    return None if divided or named or not options.files else _test_fraction(options.files) or None


def _test_fraction(files: Sequence[str]) -> float:
    """Return which fraction of the rows of files is held out: more of few, less of very many, and none of very few."""
    from mixling.data.guess import ROWS, first_rows

    rows = []
    for file in files:
        if file.startswith("hf:"):  # a data set of the hub
            return _FRACTION
        rows += first_rows(file)
        if len(rows) >= ROWS:
            break
    if len(rows) < ROWS:
        return 0.0 if len(rows) < _LEAST else _FRACTION_OF_FEW
    of_row = sum(len(str(value)) + 1 for row in rows for value in row.values.values()) / len(rows)
    number = sum(os.path.getsize(file) for file in files if os.path.isfile(file)) / max(of_row, 1)
    return float(f"{min(_FRACTION, _MOST / max(number, 1)):.1g}")
