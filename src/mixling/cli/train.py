"""`mixling train`: labeled files, or pairs of texts, to a model folder."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import typer

from mixling.cli.command import MODEL
from mixling.cli.completion import TASKS
from mixling.cli.folders import refuse_file
from mixling.cli.options import LabeledTraining, PairColumns
from mixling.cli.output import announce
from mixling.errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class PairData(PairColumns):
    """Pairs of texts to train on."""

    template: Annotated[
        str | None,
        typer.Option(
            "--form", metavar="NAME", help="Text to text: the rows are those of a task, such as rte or boolq."
        ),
    ] = None
    prefix: Annotated[
        str | None, typer.Option("--prefix", metavar="TEXT", help="Text to text: is laid before each source.")
    ] = None

    def has_pair_options(self) -> bool:
        """Return whether an option is given that only pairs of texts have."""
        return any(value is not None for value in (self.source, self.target, self.kind, self.template, self.prefix))


@dataclass(frozen=True, kw_only=True)
class BeginningOptions:
    """What a model begins with."""

    panel: ClassVar[str] = MODEL
    unlabeled: Annotated[
        list[str] | None,
        typer.Option("--unlabeled", metavar="FILE", help="Begin with word vectors of this text; may be repeated."),
    ] = None
    pretrained: Annotated[
        str | None,
        typer.Option("--from", metavar="DIR", help="Begin with the model of a run, such as one of `mixling pretrain`."),
    ] = None


@dataclass(frozen=True, kw_only=True)
class TrainOptions(PairData, BeginningOptions, LabeledTraining):
    """All that `mixling train` takes."""

    task: Annotated[
        str | None,
        typer.Option("--task", metavar="|".join(TASKS), help="By default seen from the rows."),
    ] = None

    def values(self) -> dict[str, Any]:
        start = {"vectors": self.start, "texts": self.unlabeled, "pretrained": self.pretrained}
        return {**super().values(), "start": start}

    def pair_values(self) -> dict[str, Any]:
        """Return the options laid out as `PairRunConfig` is.

        Raises:
            ConfigError: an option is given that only labeled rows have.
        """
        of_labels = {**self.columns(), "group": self.group, "start": self.start, "unlabeled": self.unlabeled}
        if also := [name for name, value in of_labels.items() if value]:
            name = also[0].replace("_", "-")
            raise ConfigError(f"--{name}: is not of --task text2text; columns are --source and --target")
        task = {
            "name": self.template,
            "train": self.files,
            "validation": self.validation,
            "validation_fraction": self.validation_fraction,
            "form": self.template,
            "prefix": self.prefix,
            "on_bad_row": self.on_bad_row,
            "columns": {"source": self.source, "target": self.target, "kind": self.kind},
        }
        return {
            "start": self.pretrained,
            "model": self.model,
            "vocabulary": self.vocabulary,
            "train": self.training_values(),
            "tasks": [task],
        }


def train(options: TrainOptions) -> None:
    """Train a model on labeled rows.

    `mixling train --resume -o DIR` alone takes all else from DIR.
    """
    refuse_file(options.out)
    started = announce("train")
    from mixling.cli.training import train_labels, train_pairs

    if _writes_text(options):
        train_pairs(options, options.pair_values(), started)
    else:
        train_labels(options, started)


def _writes_text(options: TrainOptions) -> bool:
    from mixling.runs.artifact import TEXT_TO_TEXT, kind_of_run
    from mixling.runs.kinds import infer_kind
    from mixling.seq2seq.presets import SEQ2SEQ_PRESETS

    if options.resume:
        return kind_of_run(options.out) == TEXT_TO_TEXT
    kind = infer_kind(
        task=options.task,
        toml=options.config,
        overrides=options.overrides or (),
        pairs=options.has_pair_options() or options.model in SEQ2SEQ_PRESETS,
        pretrained=options.pretrained,
        files=options.files or (),
        columns_named=any((options.text, options.label, options.tokens, options.slots)),
    )
    return kind == TEXT_TO_TEXT
