"""Options that several commands share, as frozen dataclasses."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

import typer
from typer import Option

from mixling.cli.command import DATA, MODEL, OUTPUT, TRAINING
from mixling.cli.completion import LABELING, complete_models, complete_recipes
from mixling.errors import ConfigError

_SECONDS = {"s": 1, "m": 60, "h": 3600}


def local_model(model: str) -> str:
    """Return the path of a saved model, downloaded if it is `hf:NAME[@REVISION]`.

    Raises:
        UserError: see `mixling.runs.artifact.fetch_run`.
    """
    if not model.startswith("hf:"):
        return model
    from mixling.runs.artifact import fetch_run

    return str(fetch_run(model))


ModelArgument = Annotated[
    str,
    typer.Argument(
        metavar="MODEL", help="A run folder, a model.onnx, or hf:NAME[@REVISION] on the hub.", callback=local_model
    ),
]
ThreadsOption = Annotated[int, Option("--threads", min=1, help="Number of CPU threads.")]
ThresholdOption = Annotated[
    list[str] | None,
    Option(
        "--threshold",
        metavar="P|LABEL=P",
        help="One label per text: abstain below this probability. Several: predict labels from it on (0.5), or one of "
        "them with LABEL=P; repeatable.",
    ),
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


@dataclass(frozen=True, kw_only=True)
class LabeledColumns(InputColumns):
    """The columns of a model's inputs and targets."""

    label: Annotated[str | None, Option("--label", metavar="COLUMN", help="Column of the label [label].")] = None
    slots: Annotated[
        str | None, Option("--slots", metavar="COLUMN", help="Tagging: column of the IOB tags [slots].")
    ] = None

    def columns(self) -> dict[str, str | None]:
        """Return the values of `ColumnsConfig`; None: not given."""
        names = ("text", "text_pair", "label", "tokens", "slots")
        return {name: getattr(self, name) for name in names}


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
class LabeledDataOptions(LabeledColumns):
    """Training and validation data."""

    files: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="FILES...",
            help="Labeled data: CSV, TSV, JSONL, Parquet, CoNLL, SQuAD or hf:NAME[@REVISION][:SPLIT].",
        ),
    ] = None
    validation: Annotated[
        list[str] | None,
        Option("--validation", "--dev", metavar="FILE", help="Data to choose the best epoch on; may be repeated."),
    ] = None
    validation_fraction: Annotated[
        float | None,
        Option("--validation-fraction", help="Fraction of the training data to split off without --validation [0.1]."),
    ] = None
    group: Annotated[
        str | None,
        Option("--group", metavar="COLUMN", help="Keep rows with the same value on one side of the split."),
    ] = None
    task: Annotated[
        str | None, Option("--task", metavar="|".join(LABELING), help="By default inferred from the data.")
    ] = None
    on_bad_row: Annotated[
        str | None, Option("--on-bad-row", metavar="error|skip", help="Stop at a bad row [error], or skip it.")
    ] = None

    def data_values(self) -> dict[str, Any]:
        """Return the options in the layout of `RunConfig`; None or (): not given."""
        data = {
            "train": self.files,
            "validation": self.validation,
            "validation_fraction": self.validation_fraction,
            "on_bad_row": self.on_bad_row,
        }
        return {"task": self.task, "data": {**data, "columns": {**self.columns(), "group": self.group}}}


@dataclass(frozen=True, kw_only=True)
class VectorOptions:
    """Word vectors to initialize a model from."""

    panel: ClassVar[str] = MODEL
    init_embeddings: Annotated[
        str | None,
        Option("--init-embeddings", metavar="DIR", help="Initialize from the word vectors of `mixling vectors`."),
    ] = None


@dataclass(frozen=True, kw_only=True)
class ModelOptions:
    """The model to train."""

    panel: ClassVar[str] = MODEL
    model: Annotated[
        str | None,
        Option(
            "--model",
            metavar="NAME|FILE.toml",
            help="Name or file of a model [chosen to fit the data].",
            autocompletion=complete_models,
        ),
    ] = None
    vocabulary: Annotated[
        str | None,
        Option("--vocabulary", metavar="FILE", help="Vocabulary of subwords; by default trained on the data."),
    ] = None


@dataclass(frozen=True, kw_only=True)
class Duration:
    """The duration of the training."""

    panel: ClassVar[str] = TRAINING
    epochs: Annotated[int | None, Option("--epochs", help="Passes over the data; by default chosen from its size.")] = (
        None
    )
    time_budget: Annotated[
        str | None,
        Option("--time-budget", metavar="90s|3m|1h", help="Reduce the epochs to stay within this time."),
    ] = None

    def training_values(self) -> dict[str, Any]:
        """Return the options as values of the table `train` of a configuration; None: not given."""
        seconds = None if self.time_budget is None else read_seconds(self.time_budget)
        return {"epochs": self.epochs, "time_budget": seconds}


@dataclass(frozen=True, kw_only=True)
class TrainingOptions(Duration):
    """How a model is trained, and further sources of the configuration."""

    seed: Annotated[int | None, Option("--seed", help="Seed of all randomness [0].")] = None
    config: Annotated[
        str | None,
        Option("--config", metavar="FILE.toml", help="Configuration as of `mixling config`; options override it."),
    ] = None
    overrides: Annotated[
        list[str] | None,
        Option("--set", metavar="KEY=VALUE", help="Set any value of the configuration, e.g. train.optim.lr=0.002."),
    ] = None

    def training_values(self) -> dict[str, Any]:
        return {**super().training_values(), "seed": self.seed}


@dataclass(frozen=True, kw_only=True)
class RecipeOption:
    """Published hyper-parameters."""

    panel: ClassVar[str] = TRAINING
    recipe: Annotated[
        str | None,
        Option(
            "--recipe",
            metavar="NAME",
            help="Hyper-parameters of a paper, such as gmlp-table9; other options override them.",
            autocompletion=complete_recipes,
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """The folder of a run."""

    panel: ClassVar[str] = OUTPUT
    out: Annotated[Path, Option("-o", "--out", metavar="DIR", help="Folder of the run.")]
    resume: Annotated[
        bool, Option("--resume", help="Continue the unfinished run in DIR, with an identical result.")
    ] = False
    overwrite: Annotated[bool, Option("--overwrite", help="Replace the run in DIR once the new one is finished.")] = (
        False
    )


@dataclass(frozen=True, kw_only=True)
class SplittingOptions:
    """How many processes split texts into words."""

    panel: ClassVar[str] = DATA
    workers: Annotated[
        int,
        Option("--workers", min=1, help="Processes that split millions of texts into words; the result is the same."),
    ] = 1


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
    escape: Annotated[
        bool, Option("--escape-formulas", help="CSV: put an apostrophe before cells that look like formulas.")
    ] = False
    batch_size: Annotated[int, Option("--batch-size", min=1, help="Texts in a batch.")] = 16

    @property
    def out_file(self) -> Path | None:
        """The file to write to; None: standard output."""
        return None if self.out is None else Path(self.out)


@dataclass(frozen=True, kw_only=True)
class TrainerOptions(ModelOptions, TrainingOptions, RunOptions):
    """The options of all commands that train a model."""


@dataclass(frozen=True, kw_only=True)
class LabeledTraining(LabeledDataOptions, VectorOptions, TrainerOptions):
    """The options that `train` and `distill` share."""

    def values(self) -> dict[str, Any]:
        """Return the options in the layout of `RunConfig`, for `mixling.runs.spec.resolve`; None: not given."""
        return {
            **self.data_values(),
            "init": {"vectors": self.init_embeddings},
            "model": self.model,
            "vocabulary": self.vocabulary,
            "train": self.training_values(),
        }


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


def read_seconds(text: str) -> float:
    """Return the seconds of "90s", "3m" or "1h".

    Raises:
        ConfigError: the text is malformed.
    """
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([smh]?)", text.strip())
    if match is None or float(match[1]) <= 0:
        raise ConfigError(f"--time-budget: got {text!r}; a number with s, m or h is allowed, such as 90s or 3m")
    if not match[2]:
        choices = " or ".join(f"{match[1]}{unit}" for unit in _SECONDS)
        raise ConfigError(f"--time-budget: got {text!r} without a unit; give {choices}")
    return float(match[1]) * _SECONDS[match[2]]
