"""Options that several commands share, as frozen dataclasses: models, columns, inputs and predictions."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

import typer
from typer import Option

from mixling.cli.command import DATA, OUTPUT
from mixling.errors import ConfigError, shown


def local_model(model: str) -> str:
    """Return the path of a saved model: the packaged one of `demo`, or downloaded if it is `hf:NAME[@REVISION]`.

    Raises:
        UserError: see `mixling.artifacts.artifact.fetch_run`.
    """
    if model == "demo":
        from mixling.samples.sets import saved_model

        return str(saved_model(model))
    if not model.startswith("hf:"):
        return model
    from mixling.artifacts.artifact import fetch_run

    return str(fetch_run(model))


ModelArgument = Annotated[
    str,
    typer.Argument(
        metavar="MODEL",
        help="A run folder, a model.onnx, hf:NAME[@REVISION] on the hub, or demo (packaged).",
        callback=local_model,
    ),
]
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


@dataclass(frozen=True, kw_only=True)
class TextColumn:
    """The column of a text."""

    panel: ClassVar[str] = DATA
    text: Annotated[
        str | None,
        Option("--text", metavar="COLUMN", help="Column of the text [text, or the column in training]."),
    ] = None


@dataclass(frozen=True, kw_only=True)
class InputColumns(TextColumn):
    """The columns of a model's inputs."""

    text_pair: Annotated[str | None, Option("--text-pair", metavar="COLUMN", help="Column of a second text.")] = None
    tokens: Annotated[
        str | None, Option("--tokens", metavar="COLUMN", help="Tagging: column of the words [tokens].")
    ] = None
    sentence: Annotated[
        str | None,
        Option(
            "--sentence",
            metavar="COLUMN",
            help="Tagging, where each row has a word: rows with the same value, or none after the first, are joined.",
        ),
    ] = None

    def columns(self) -> dict[str, Any]:
        """Return the values of `ColumnsConfig`; None: not given."""
        return {"text": self.text, "text_pair": self.text_pair, "tokens": self.tokens, "sentence": self.sentence}


@dataclass(frozen=True, kw_only=True)
class LabeledColumns(InputColumns):
    """The columns of a model's inputs and targets."""

    label: Annotated[str | None, Option("--label", metavar="COLUMN", help="Column of the label [label].")] = None
    labels: Annotated[
        str | None,
        Option("--labels", metavar="A,B,C", help="Several labels a text: columns of 0 and 1, one for each label."),
    ] = None
    label_delimiter: Annotated[
        str | None,
        Option(
            "--label-delimiter", metavar="TEXT", help="Several labels in a cell: what separates them, such as ';' [|]."
        ),
    ] = None
    slots: Annotated[
        str | None, Option("--slots", metavar="COLUMN", help="Tagging: column of the tags, or of spans [slots].")
    ] = None
    tags: Annotated[
        str | None,
        Option(
            "--tags",
            metavar="SCHEME|NAMES",
            help="Tagging: iob2, iob1, io, bioes, bilou, bmes, ioe1 or ioe2 [recognized]; or O,B-x,I-x: names of tags "
            "that are numbers.",
        ),
    ] = None
    question: Annotated[
        str | None, Option("--question", metavar="COLUMN", help="Questions: their column [question].")
    ] = None
    context: Annotated[
        str | None, Option("--context", metavar="COLUMN", help="Questions: column of the texts with answers [context].")
    ] = None
    answers: Annotated[
        str | None, Option("--answers", metavar="COLUMN", help="Questions: column of the answers [answers].")
    ] = None

    def columns(self) -> dict[str, Any]:
        try:
            labels = None if self.labels is None else next(csv.reader([self.labels], skipinitialspace=True), [])
        except csv.Error as error:
            quoted = "names as in a line of CSV, in double quotes if they have commas or line breaks"
            raise ConfigError(f"--labels: got {shown(self.labels)}; allowed: {quoted}") from error
        keys = ("label", "label_delimiter", "slots", "tags", "question", "context", "answers")
        out = {**super().columns(), "labels": labels, **{key: getattr(self, key) for key in keys}}
        if self.label_delimiter is not None:
            out["label_delimiter"] = self.label_delimiter.replace("\\t", "\t").replace("\\n", "\n")
        return out


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
    group_by: Annotated[
        str | None,
        Option("--group-by", metavar="COLUMN", help="Text to text: also report metrics per value of this column."),
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
    echo: Annotated[bool, Option("--echo", help="Also write each text.")] = False
    on_bad_row: Annotated[
        str, Option("--on-bad-row", metavar="error|skip", help="Stop, or write an error instead of a prediction.")
    ] = "error"
    escape: EscapeOption = False
    batch_size: Annotated[int, Option("--batch-size", min=1, help="Texts in a batch.")] = 16

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
