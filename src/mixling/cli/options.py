"""Options that several commands share, as frozen dataclasses: models, columns, inputs and predictions."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

import typer
from typer import Option

from mixling.cli.command import DATA, OUTPUT
from mixling.errors import ConfigError, near_miss, shown


def refuse_stdin(command: str, files: Sequence[str], remedy: str = "the rows to a file, such as rows.jsonl") -> None:
    """Refuse standard input where a command reads files, or reads them twice.

    Raises:
        ConfigError: it is among the files.
    """
    if "-" in files:
        raise ConfigError(f"-: {command} reads files, not standard input; write {remedy}")


def local_model(model: str) -> str:
    """Return the path of a saved model: the packaged one of `demo`, or downloaded if it is `hf:NAME[@REVISION]`.

    Raises:
        UserError: see `mixling.artifacts.artifact.fetch_run`.
    """
    if model == "demo":
        from mixling.samples.sets import saved_model

        return str(saved_model(model))
    if not model or not model.startswith("hf:"):  # none, where a command needs none
        return model
    from mixling.artifacts.artifact import fetch_run

    return str(fetch_run(model))


MODEL = typer.Argument(
    metavar="MODEL",
    help="A run folder, a model.onnx, hf:NAME[@REVISION] on the hub, or demo (packaged).",
    callback=local_model,
)
ModelArgument = Annotated[str, MODEL]
ThreadsOption = Annotated[int, Option("--threads", min=1, help="Number of CPU threads.")]
ThresholdOption = Annotated[
    list[str] | None,
    Option(
        "--threshold",
        metavar="P|LABEL=P",
        help="One label per text: abstain below this probability. Several: predict the labels that reach it [0.5]; "
        "LABEL=P is for one of them; repeatable.",
    ),
]
OnBadRowOption = Annotated[
    str, Option("--on-bad-row", metavar="error|skip", help="Stop at a bad row, or skip and count it.")
]

EscapeOption = Annotated[
    bool, Option("--escape-formulas", help="CSV: put an apostrophe before cells that look like formulas.")
]

TooLongOption = Annotated[
    str,
    Option(
        "--too-long",
        metavar="windows|truncate|error",
        help="Texts above the model's maximum: read all in windows, read the beginning, or refuse.",
    ),
]


SeveralTexts = Annotated[
    list[str] | None,
    Option(
        "--text",
        metavar="COLUMN",
        help="Column of the text [text, or those in training]; again for a body beside a title.",
    ),
]
SecondText = Annotated[
    str | None, Option("--text-pair", metavar="COLUMN", help="Column of a second text, as --text again.")
]


@dataclass(frozen=True, kw_only=True)
class TextColumn:
    """The column of a text."""

    panel: ClassVar[str] = DATA
    text: Annotated[
        str | None,
        Option("--text", metavar="COLUMN", help="Column of the text [text, or the column in training]."),
    ] = None


def text_columns(texts: Sequence[str] | None, text_pair: str | None) -> list[str]:
    """Return the columns of texts that belong together; a second one alone follows the default.

    Raises:
        ConfigError: a column is named twice, there are too many, or two options name further ones.
    """
    from mixling.text.config import check_together

    named = list(texts or ())
    if text_pair is not None and len(named) > 1:
        raise ConfigError(
            f"--text-pair: got {shown(text_pair)} beside {len(named)} columns of --text; use --text alone"
        )
    if text_pair is not None:
        named = [*(named or ["text"]), text_pair]
    if named:
        check_together(named, "--text")
    return named


@dataclass(frozen=True, kw_only=True)
class InputColumns(TextColumn):
    """The columns of a model's inputs."""

    any_key: ClassVar[bool] = False  # whether --set sets any key of a configuration, or columns only

    text: SeveralTexts = None  # type: ignore[assignment]  # one or several
    text_pair: SecondText = None
    overrides: Annotated[
        list[str] | None,
        Option("--set", metavar="KEY=VALUE", help="Name another column, such as data.columns.sentence=id."),
    ] = None

    def named_columns(self) -> dict[str, Any]:
        """Return the columns that options of their own name, as values of `ColumnsConfig`; None: not given."""
        further = text_columns(self.text, self.text_pair)[1:]
        return {"text": self.text[0] if self.text else None, "text_pair": further or None}

    def columns(self) -> dict[str, Any]:
        """Return the values of `ColumnsConfig`; --set overrides other options. None: not given.

        Raises:
            ConfigError: --set names a key that the command does not have.
        """
        if not self.overrides:
            return self.named_columns()
        from mixling.config import read_overrides

        for override in self.overrides:
            if not self.any_key and not override.startswith("data.columns."):
                raise ConfigError(f"--set {override}: only columns can be set here, as data.columns.KEY=COLUMN")
        data = read_overrides(self.overrides).get("data", {})
        columns = data.get("columns", {}) if isinstance(data, dict) else {}
        return {**self.named_columns(), **(columns if isinstance(columns, dict) else {})}


@dataclass(frozen=True, kw_only=True)
class LabeledColumns(InputColumns):
    """The columns of a model's inputs and targets."""

    label: Annotated[
        str | None,
        Option("--label", metavar="COLUMN|A,B,C", help="Column of the label [label]; or one of 0 and 1 for each."),
    ] = None

    def named_columns(self) -> dict[str, Any]:
        try:
            names = [] if self.label is None else next(csv.reader([self.label], skipinitialspace=True), [])
        except csv.Error as error:
            quoted = "names as in a line of CSV, in double quotes if they have commas or line breaks"
            raise ConfigError(f"--label: got {shown(self.label)}; allowed: {quoted}") from error
        label = {"labels": names} if len(names) > 1 else {"label": names[0] if names else self.label}
        return {**super().named_columns(), **label}


@dataclass(frozen=True, kw_only=True)
class FeatureColumns(LabeledColumns):
    """The columns of a model's inputs and targets, with those beside the text."""

    features: Annotated[
        str | None,
        Option(
            "--features",
            metavar="COLUMN[:KIND],...",
            help="Columns beside the text, each a number, category or date [guessed].",
        ),
    ] = None

    def named_columns(self) -> dict[str, Any]:
        return {**super().named_columns(), "features": self.features}


@dataclass(frozen=True, kw_only=True)
class CellOptions:
    """The values of the columns beside a text."""

    panel: ClassVar[str] = DATA
    cells: Annotated[
        list[str] | None,
        Option("--column", metavar="NAME=VALUE", help="Of texts: a column beside them; repeatable."),
    ] = None

    def beside(self, texts: Sequence[Any], features: Sequence[str]) -> list[Any]:
        """Return texts of the command line with the columns beside them.

        Args:
            features: the model's columns, see `Predictor.features`.

        Raises:
            ConfigError: a column is missing, unknown or malformed.
        """
        given = dict(item.partition("=")[::2] for item in self.cells or () if "=" in item)
        if len(given) < len(self.cells or ()):
            raise ConfigError(f"--column: got {', '.join(self.cells or ())!r}; allowed: NAME=VALUE, each name once")
        if not features and not given:
            return list(texts)
        from mixling.errors import DataError
        from mixling.features.cells import cells_in, with_cells
        from mixling.features.columns import check_cell
        from mixling.features.kinds import parse_features

        kinds = parse_features(features)
        if unknown := [name for name in given if name not in kinds]:
            known = near_miss(unknown[0], kinds) if kinds else "the model has none"
            raise ConfigError(f"--column: the model has no column {unknown[0]!r}; {known}")
        options = " ".join(f'--column "{name}=VALUE"' if " " in name else f"--column {name}=VALUE" for name in kinds)
        if not given:
            raise ConfigError(f"this model reads columns beside the text: add {options}, or name a file with them")
        try:
            for name, kind in kinds.items():
                check_cell(name, kind or "category", given.get(name))
            cells = cells_in(given, list(kinds))
        except DataError as error:
            raise ConfigError(f"--column: {error}; the model reads {options}") from None
        return [with_cells(text, cells) for text in texts]


@dataclass(frozen=True, kw_only=True)
class SourceColumn:
    """The column of the source of text to text."""

    panel: ClassVar[str] = DATA
    source: Annotated[
        str | None, Option("--source", metavar="COLUMN", help="Text to text: column of the input text [source].")
    ] = None


@dataclass(frozen=True, kw_only=True)
class PairColumnOptions(SourceColumn):
    """The columns of pairs of a source and a target."""

    target: Annotated[
        str | None, Option("--target", metavar="COLUMN", help="Text to text: column of the output text [target].")
    ] = None


@dataclass(frozen=True, kw_only=True)
class PredictionOptions:
    """The inputs of predictions, and their output."""

    panel: ClassVar[str] = OUTPUT
    inputs: Annotated[
        list[str] | None,
        typer.Argument(metavar="INPUT...", help="Texts; or files (.txt: one text per line); or - for standard input."),
    ] = None
    out: Annotated[str | None, Option("-o", "--out", metavar="FILE", help="Write to this file, once complete.")] = None
    output_format: Annotated[
        str | None,
        Option("--format", metavar="jsonl|csv|text", help="By default from FILE's name; text on a terminal."),
    ] = None
    on_bad_row: Annotated[
        str, Option("--on-bad-row", metavar="error|skip", help="Stop, or write an error instead of a prediction.")
    ] = "error"

    @property
    def out_file(self) -> Path | None:
        """The file to write to; None: standard output."""
        return None if self.out is None else Path(self.out)


def read_threshold(given: list[str] | None) -> float | dict[str, float] | None:
    """Return what `Predictor` takes for the values of --threshold.

    Raises:
        ConfigError: one is not a number, or there are several that have no label.
    """
    if not given:
        return None
    found: dict[str, float] = {}
    for text in given:
        label, sep, number = text.rpartition("=")
        try:
            value = float(number)
        except ValueError:
            raise ConfigError(f"--threshold: got {text!r}; give a probability such as 0.8, or LABEL=0.8") from None
        if not sep and len(given) == 1:
            return value
        if not sep:
            raise ConfigError(
                f"--threshold: got {text!r} beside others; give one for all labels, or each as LABEL={text}"
            )
        found[label] = value
    return found


def column_names(option: str, given: Sequence[str] | None) -> tuple[str, ...]:
    """Return the columns that an option names, once each; a name with a comma is in double quotes.

    Raises:
        ConfigError: these are no names as in a line of CSV.
    """
    try:
        names = [name.strip() for row in csv.reader(given or [], skipinitialspace=True) for name in row]
    except csv.Error:
        names = [""]
    if "" in names:
        raise ConfigError(f"{option}: got {shown(','.join(given or []))}; give names with commas between them: id,url")
    return tuple(dict.fromkeys(names))
