"""Options of the commands that train, as frozen dataclasses: data, model, training and the folder of the run."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

import typer
from typer import Option

from mixling.cli.command import MODEL, OUTPUT, TRAINING
from mixling.cli.completion import LABELING, complete_models
from mixling.cli.options import FeatureColumns
from mixling.errors import ConfigError

SetOption = Annotated[
    list[str] | None,
    Option("--set", metavar="KEY=VALUE", help="Set any value of the configuration, e.g. train.optim.lr=0.002."),
]
LEAST_SIZE = 100_000  # bytes of a model file
_SECONDS = {"s": 1, "m": 60, "h": 3600}


@dataclass(frozen=True, kw_only=True)
class LabeledDataOptions(FeatureColumns):
    """Training and validation data."""

    any_key: ClassVar[bool] = True

    files: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="FILES...",
            help="Labeled data: CSV, TSV, JSONL, Parquet, CoNLL, SQuAD, fastText, a folder of texts for each class, or "
            "hf:NAME[@REVISION][:SPLIT].",
        ),
    ] = None
    validation: Annotated[
        list[str] | None,
        Option("--validation", "--dev", metavar="FILE", help="Data to choose the best epoch on; may be repeated."),
    ] = None
    task: Annotated[
        str | None, Option("--task", metavar="|".join(LABELING), help="By default inferred from the data.")
    ] = None
    on_bad_row: Annotated[
        str | None, Option("--on-bad-row", metavar="error|skip", help="Stop at a bad row [error], or skip it.")
    ] = None
    overrides: SetOption = None

    def data_values(self) -> dict[str, Any]:
        """Return the options in the layout of `RunConfig`; None or (): not given."""
        data = {
            "train": self.files,
            "validation": self.validation,
            "on_bad_row": self.on_bad_row,
        }
        return {"task": self.task, "data": {**data, "columns": self.columns()}}


UnlabeledOption = Annotated[
    list[str] | None,
    Option(
        "--unlabeled",
        metavar="FILE",
        help="Text without labels, for word vectors and, beside few rows, for words that go together; repeatable.",
    ),
]


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


@dataclass(frozen=True, kw_only=True)
class Duration:
    """The duration of the training."""

    panel: ClassVar[str] = TRAINING
    epochs: Annotated[int | None, Option("--epochs", help="Passes over the data [by its size].")] = None
    time_budget: Annotated[
        str | None,
        Option("--time-budget", metavar="90s|3m|1h", help="End within this time: fewer epochs, or n-grams alone."),
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
    overrides: SetOption = None

    def training_values(self) -> dict[str, Any]:
        return {**super().training_values(), "seed": self.seed}


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
    verbose: Annotated[bool, Option("--verbose", help="Show how the model is initialized, calibrated and joined.")] = (
        False
    )


@dataclass(frozen=True, kw_only=True)
class TrainerOptions(ModelOptions, TrainingOptions, RunOptions):
    """The options of all commands that train a model."""


@dataclass(frozen=True, kw_only=True)
class LabeledTraining(LabeledDataOptions, TrainerOptions):
    """The options that `train` and `distill` share."""

    max_size: Annotated[
        str | None,
        Option("--max-size", metavar="500KB|2MB", help="Largest model file; its n-grams have what the network leaves."),
    ] = None

    def values(self) -> dict[str, Any]:
        """Return the options in the layout of `RunConfig`, for `mixling.runs.resolve.spec.resolve`; None: not given."""
        return {
            **self.data_values(),
            "model": self.model,
            "train": self.training_values(),
            "ngrams": {"max_size": None if self.max_size is None else read_size(self.max_size)},
        }


@dataclass(frozen=True, kw_only=True)
class MetricOptions:
    """What a model is made for."""

    panel: ClassVar[str] = TRAINING
    metric: Annotated[
        str | None,
        typer.Option(
            "--metric",
            metavar="NAME",
            help="Choose the best epoch and the answers by this metric: macro-f1, balanced-accuracy, mcc, f1:LABEL, "
            "..., by task [accuracy].",
        ),
    ] = None


def read_size(text: str) -> int:
    """Return the bytes of "500KB" or "2MB", in thousands.

    Raises:
        ConfigError: the text is malformed, or too small for any model.
    """
    match = re.fullmatch(r"(\d+(?:\.\d+)?) ?(kb|mb)", text.strip().lower())
    if match is None:
        raise ConfigError(f"--max-size: got {text!r}; a number with KB or MB is allowed, such as 500KB or 2MB")
    size = round(float(match[1]) * {"kb": 1_000, "mb": 1_000_000}[match[2]])
    if size < LEAST_SIZE:
        raise ConfigError(f"--max-size: got {text!r}; allowed: from {LEAST_SIZE // 1000}KB")
    return size


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
