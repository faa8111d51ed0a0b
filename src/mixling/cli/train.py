"""`mixling train`: training on labeled data, or on pairs of texts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import typer

from mixling.cli.command import MODEL
from mixling.cli.completion import TASK_NAMES
from mixling.cli.folders import refuse_file
from mixling.cli.options import LabeledTraining, PairColumnOptions, RecipeOption
from mixling.cli.output import announce
from mixling.errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class PairOptions(PairColumnOptions):
    """Pairs of texts to train on."""

    template: Annotated[
        str | None,
        typer.Option(
            "--template", metavar="NAME", help="Text to text: template of a benchmark task, such as rte or boolq."
        ),
    ] = None
    prefix: Annotated[
        str | None, typer.Option("--prefix", metavar="TEXT", help="Text to text: prepended to each source.")
    ] = None

    def has_pair_options(self) -> bool:
        """Return whether an option of text to text is given."""
        return any(value is not None for value in (self.source, self.target, self.group_by, self.template, self.prefix))


@dataclass(frozen=True, kw_only=True)
class InitOptions:
    """How a model is initialized."""

    panel: ClassVar[str] = MODEL
    unlabeled: Annotated[
        list[str] | None,
        typer.Option("--unlabeled", metavar="FILE", help="Initialize from word vectors of this text; repeatable."),
    ] = None
    pretrained: Annotated[
        str | None,
        typer.Option("--from", metavar="DIR", help="Fine-tune the model of a run, such as of `mixling pretrain`."),
    ] = None


@dataclass(frozen=True, kw_only=True)
class TrainOptions(PairOptions, InitOptions, RecipeOption, LabeledTraining):
    """Options of `mixling train`."""

    task: Annotated[
        str | None,
        typer.Option("--task", metavar="|".join(TASK_NAMES), help="By default inferred from the data."),
    ] = None

    refit: Annotated[
        bool,
        typer.Option("--refit", help="Train again on training and validation data, for the best number of epochs."),
    ] = False

    abstain_at: Annotated[
        float | None,
        typer.Option(
            "--abstain-at",
            metavar="ACCURACY",
            help="Abstain where uncertain, so that this fraction of what is answered is right, such as 0.95.",
        ),
    ] = None

    def values(self) -> dict[str, Any]:
        init = {"vectors": self.init_embeddings, "texts": self.unlabeled, "pretrained": self.pretrained}
        more = {"init": init, "refit": self.refit or None, "abstain_at": self.abstain_at, "recipe": self.recipe}
        return {**super().values(), **more}

    def pair_values(self) -> dict[str, Any]:
        """Return the options in the layout of `PairRunConfig`.

        Raises:
            ConfigError: an option is given that text to text does not have.
        """
        label_options: dict[str, Any] = {
            **self.columns(),
            "group": self.group,
            "init_embeddings": self.init_embeddings,
            "unlabeled": self.unlabeled,
            "refit": self.refit,
            "abstain_at": self.abstain_at,
        }
        if also := [name for name, value in label_options.items() if value]:
            name = also[0].replace("_", "-")
            raise ConfigError(f"--{name}: does not apply to --task text2text; its columns are --source and --target")
        task = {
            "name": self.template,
            "train": self.files,
            "validation": self.validation,
            "validation_fraction": self.validation_fraction,
            "template": self.template,
            "prefix": self.prefix,
            "on_bad_row": self.on_bad_row,
            "columns": {"source": self.source, "target": self.target, "group": self.group_by},
        }
        return {
            "pretrained": self.pretrained,
            "model": self.model,
            "vocabulary": self.vocabulary,
            "train": self.training_values(),
            "recipe": self.recipe,
            "tasks": [task],
        }


def train_command(options: TrainOptions) -> None:
    """Train a model on labeled data.

    `mixling train --resume -o DIR` continues an unfinished run; it needs no other options.
    """
    refuse_file(options.out)
    started = announce("train")
    from mixling.cli.training import train_labels, train_pairs

    if _is_text_to_text(options):
        train_pairs(options, options.pair_values(), started)
    else:
        train_labels(options, started)


def _is_text_to_text(options: TrainOptions) -> bool:
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
