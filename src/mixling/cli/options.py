"""Options that several commands share: a frozen dataclass for each group, whose fields are the options."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

import typer
from typer import Option

from mixling.cli.command import DATA, MODEL, OUTPUT, TRAINING
from mixling.cli.completion import LABELING, complete_models
from mixling.errors import ConfigError

_SECONDS = {"s": 1, "m": 60, "h": 3600}

ModelArgument = Annotated[str, typer.Argument(metavar="MODEL", help="A run folder, or a model.onnx.")]
ThreadsOption = Annotated[int, Option("--threads", min=1, help="Threads of one computation.")]


@dataclass(frozen=True, kw_only=True)
class TextColumn:
    """The column of a text."""

    panel: ClassVar[str] = DATA
    text: Annotated[
        str | None,
        Option("--text", metavar="COLUMN", help="Column of the text [text, or that of the model's training rows]."),
    ] = None


@dataclass(frozen=True, kw_only=True)
class InputColumns(TextColumn):
    """The columns of what a model reads."""

    text_pair: Annotated[str | None, Option("--text-pair", metavar="COLUMN", help="Column of a second text.")] = None
    tokens: Annotated[
        str | None, Option("--tokens", metavar="COLUMN", help="Tagging: column of the words [tokens].")
    ] = None


@dataclass(frozen=True, kw_only=True)
class LabeledColumns(InputColumns):
    """The columns of what a model reads and of what is right."""

    label: Annotated[str | None, Option("--label", metavar="COLUMN", help="Column of the label [label].")] = None
    slots: Annotated[
        str | None, Option("--slots", metavar="COLUMN", help="Tagging: column of the IOB tags [slots].")
    ] = None

    def columns(self) -> dict[str, str | None]:
        """Return the columns by the names that `ColumnsConfig` has for them; None: not given."""
        names = ("text", "text_pair", "label", "tokens", "slots")
        return {name: getattr(self, name) for name in names}


@dataclass(frozen=True, kw_only=True)
class SourceColumn:
    """The column of what a model that writes text reads."""

    panel: ClassVar[str] = DATA
    source: Annotated[
        str | None, Option("--source", metavar="COLUMN", help="Text to text: column of what is read [source].")
    ] = None


@dataclass(frozen=True, kw_only=True)
class PairColumns(SourceColumn):
    """The columns of pairs of a source and a target."""

    target: Annotated[
        str | None, Option("--target", metavar="COLUMN", help="Text to text: column of what is written [target].")
    ] = None
    kind: Annotated[
        str | None,
        Option("--kind", metavar="COLUMN", help="Text to text: column of groups that are measured each, too."),
    ] = None


@dataclass(frozen=True, kw_only=True)
class LabeledData(LabeledColumns):
    """Rows to train on and to choose by."""

    files: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="FILES...",
            help="Labeled rows: CSV, TSV, JSONL, Parquet, CoNLL, SQuAD or hf:NAME[@REVISION][:SPLIT].",
        ),
    ] = None
    validation: Annotated[
        list[str] | None,
        Option("--validation", metavar="FILE", help="Rows to choose the best epoch on; may be repeated."),
    ] = None
    validation_fraction: Annotated[
        float | None,
        Option("--validation-fraction", help="Share of the rows set aside for validation without --validation [0.1]."),
    ] = None
    group: Annotated[
        str | None,
        Option("--group", metavar="COLUMN", help="Rows with one value there are set aside together, or not at all."),
    ] = None
    task: Annotated[
        str | None,
        Option(
            "--task",
            metavar="|".join(LABELING),
            help="By default seen from the rows.",
        ),
    ] = None
    on_bad_row: Annotated[
        str | None, Option("--on-bad-row", metavar="error|skip", help="Stop at a bad row [error], or count it.")
    ] = None

    def data_values(self) -> dict[str, Any]:
        """Return the options by their names, laid out as `RunConfig` is; None or (): not given."""
        data = {
            "train": self.files,
            "validation": self.validation,
            "validation_fraction": self.validation_fraction,
            "on_bad_row": self.on_bad_row,
        }
        return {"task": self.task, "data": {**data, "columns": {**self.columns(), "group": self.group}}}


@dataclass(frozen=True, kw_only=True)
class VectorOptions:
    """What a model begins with."""

    panel: ClassVar[str] = MODEL
    start: Annotated[
        str | None,
        Option(
            "--init-embeddings", metavar="DIR", help="Begin with the word vectors that `mixling vectors` wrote there."
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class ModelOptions:
    """The model that is trained."""

    panel: ClassVar[str] = MODEL
    model: Annotated[
        str | None,
        Option(
            "--model",
            metavar="NAME|FILE.toml",
            help="A model by name, or a file of one [by the data].",
            autocompletion=complete_models,
        ),
    ] = None
    vocabulary: Annotated[
        str | None,
        Option("--vocabulary", metavar="FILE", help="Units to use; by default trained on the training rows."),
    ] = None


@dataclass(frozen=True, kw_only=True)
class Duration:
    """How long a training is."""

    panel: ClassVar[str] = TRAINING
    epochs: Annotated[int | None, Option("--epochs", help="By default from the number of rows.")] = None
    time_budget: Annotated[
        str | None,
        Option("--time-budget", metavar="90s|3m|1h", help="Train for fewer epochs where they would take longer."),
    ] = None

    def training_values(self) -> dict[str, Any]:
        """Return the options by their names in the table `train` of a configuration; None: not given."""
        seconds = None if self.time_budget is None else read_seconds(self.time_budget)
        return {"epochs": self.epochs, "time_budget": seconds}


@dataclass(frozen=True, kw_only=True)
class TrainingOptions(Duration):
    """How a model is trained, and where else the configuration comes from."""

    seed: Annotated[int | None, Option("--seed", help="Of all that is random [0].")] = None
    config: Annotated[
        str | None,
        Option(
            "--config", metavar="FILE.toml", help="A configuration as `mixling config` prints it; options go before it."
        ),
    ] = None
    overrides: Annotated[
        list[str] | None,
        Option("--set", metavar="KEY=VALUE", help="Any value of the configuration, e.g. train.optim.lr=0.002."),
    ] = None

    def training_values(self) -> dict[str, Any]:
        return {**super().training_values(), "seed": self.seed}


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """The folder of a run, and what becomes of the run that is there."""

    panel: ClassVar[str] = OUTPUT
    out: Annotated[Path, Option("-o", "--out", metavar="DIR", help="The folder of the run.")]
    resume: Annotated[
        bool, Option("--resume", help="Continue the unfinished run in DIR; it ends with the same bytes.")
    ] = False
    overwrite: Annotated[
        bool, Option("--overwrite", help="Replace the run in DIR; its model stays until the new one is finished.")
    ] = False


@dataclass(frozen=True, kw_only=True)
class AnswerOptions:
    """Inputs to predict for, and how the predictions are written."""

    panel: ClassVar[str] = OUTPUT
    inputs: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="INPUT...", help="A text; or files (.txt: a text on each line); or - for standard input."
        ),
    ] = None
    out: Annotated[
        Path | None, Option("-o", "--out", metavar="FILE", help="Write there, at once when all is done.")
    ] = None
    output_format: Annotated[
        str | None,
        Option("--format", metavar="jsonl|csv|text", help="By default of FILE's name; text for a terminal."),
    ] = None
    echo: Annotated[bool, Option("--echo", help="Write each text beside its answer.")] = False
    on_bad_row: Annotated[
        str, Option("--on-bad-row", metavar="error|skip", help="skip: the row's answer is its error.")
    ] = "error"
    escape: Annotated[
        bool, Option("--escape-formulas", help="CSV: an apostrophe before cells that a spreadsheet would compute.")
    ] = False
    batch_size: Annotated[int, Option("--batch-size", min=1, help="Texts computed together.")] = 16


@dataclass(frozen=True, kw_only=True)
class TrainerOptions(ModelOptions, TrainingOptions, RunOptions):
    """All that the commands share which train a model."""


@dataclass(frozen=True, kw_only=True)
class LabeledTraining(LabeledData, VectorOptions, TrainerOptions):
    """All that `train` and `distill` share."""

    def values(self) -> dict[str, Any]:
        """Return the options laid out as `RunConfig` is, for `mixling.runs.spec.resolve`; None: not given."""
        return {
            **self.data_values(),
            "start": {"vectors": self.start},
            "model": self.model,
            "vocabulary": self.vocabulary,
            "train": self.training_values(),
        }


def read_seconds(text: str) -> float:
    """Return the seconds of "90s", "3m" or "1h".

    Raises:
        ConfigError: the text is none of these.
    """
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([smh]?)", text.strip())
    if match is None or float(match[1]) <= 0:
        raise ConfigError(f"--time-budget: got {text!r}; a number with s, m or h is allowed, such as 90s or 3m")
    if not match[2]:
        choices = " or ".join(f"{match[1]}{subword}" for subword in _SECONDS)
        raise ConfigError(f"--time-budget: got {text!r} without a unit; give {choices}")
    return float(match[1]) * _SECONDS[match[2]]
