"""`mixling train`: training on labeled data, on pairs of texts, or on images."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import typer

from mixling.cli.command import MODEL
from mixling.cli.completion import TASK_NAMES, complete_tasks
from mixling.cli.folders import refuse_file
from mixling.cli.guessing import completed
from mixling.cli.options import PairColumnOptions
from mixling.cli.output import announce
from mixling.cli.training_options import LabeledTraining, MetricOptions, SplittingOptions, UnlabeledOption
from mixling.errors import ConfigError

if TYPE_CHECKING:
    from mixling.artifacts.kinds import RunKind
    from mixling.cli.kinds import KindCommands

_UNTESTED = (
    "with -o, all rows are trained and chosen on, so that new texts may do worse: --test FILE or --test-fraction 0.1 "
    "tests the model, beside a baseline"
)


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
    unlabeled: UnlabeledOption = None
    pretrained: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="DIR",
            help="Fine-tune a model of `mixling pretrain`, or of `mixling train`, whose labels are kept.",
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class TrainOptions(PairOptions, InitOptions, MetricOptions, LabeledTraining, SplittingOptions):
    """Options of `mixling train`."""

    task: Annotated[
        str | None,
        typer.Option(
            "--task",
            metavar="NAME",
            autocompletion=complete_tasks,
            help=f"{', '.join(TASK_NAMES)} [inferred from the data].",
        ),
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
            help="Abstain where uncertain, so that this fraction of the answers is right, such as 0.95.",
        ),
    ] = None

    out_of_scope: Annotated[
        list[str] | None,
        typer.Option(
            "--out-of-scope",
            metavar="FILE",
            help="Texts that no label fits, to choose the threshold of abstaining by; repeatable.",
        ),
    ] = None

    conformal: Annotated[
        float | None,
        typer.Option(
            "--conformal",
            metavar="COVERAGE",
            help="Predict sets of labels that have the right one this often, such as 0.95; half of the validation data "
            "is kept apart for them.",
        ),
    ] = None

    label_thresholds: Annotated[
        str | None,
        typer.Option(
            "--label-thresholds",
            metavar="f1|PRECISION",
            help="Several labels per text: choose each label's threshold on validation, by F1 or for a precision.",
        ),
    ] = None

    baseline: Annotated[
        bool | None,
        typer.Option(
            "--baseline/--no-baseline",
            help="Also fit TF-IDF with logistic regression, or the task's other baseline, to compare with [with rows "
            "to test on].",
        ),
    ] = None

    test: Annotated[
        list[str] | None,
        typer.Option(
            "--test", metavar="FILE", help="Data to test the finished model on, read once, at the end; may be repeated."
        ),
    ] = None

    test_fraction: Annotated[
        float | None,
        typer.Option(
            "--test-fraction",
            help="Fraction of the rows that is held out to test on, before anything else; 0: none [without -o 0.1, or "
            "0.2 of fewer than 1,000 rows].",
        ),
    ] = None

    out: Annotated[  # None only until `completed`
        Path, typer.Option("-o", "--out", metavar="DIR", help="Folder of the run [FILE-model].")
    ] = None  # type: ignore[assignment]

    def values(self) -> dict[str, Any]:
        init = {"texts": self.unlabeled, "pretrained": self.pretrained}
        values = super().values()
        data = {**values["data"], "test": self.test, "test_fraction": self.test_fraction}
        return {**values, "data": data, "init": init, "decisions": self._decisions()}

    def _decisions(self) -> dict[str, Any]:
        return {
            **self.aims(),
            "refit": self.refit or None,
            "abstain_at": self.abstain_at,
            "out_of_scope": self.out_of_scope,
            "conformal": self.conformal,
            "label_thresholds": _number_or_name(self.label_thresholds),
        }

    def label_option(self) -> str | None:
        """Return an option, as given, that only tasks with labeled texts have; None: there is none."""
        options: dict[str, Any] = {
            **self.named_columns(),
            "unlabeled": self.unlabeled,
            "baseline": self.baseline,
            "test": self.test,
            "test_fraction": self.test_fraction,
            **self._decisions(),
        }
        return next((name.replace("_", "-") for name, value in options.items() if value), None)


def _number_or_name(value: str | None) -> float | str | None:
    try:
        return value if value is None else float(value)
    except ValueError:
        return value


def train_command(options: TrainOptions) -> None:
    """Train a model on labeled data.

    `mixling train FILE`, or `mixling FILE`, is enough: columns are guessed, some rows are held out to test on, and the
    folder is named after the file. `mixling train --resume -o DIR` continues an unfinished run without other options.
    """
    if options.resume and options.out is None:
        raise ConfigError("--resume: name the folder of the unfinished run: mixling train --resume -o DIR")
    if not options.resume:
        options = completed(options, of_labels=_other_commands(options) is None)
    if options.out is None:
        raise ConfigError("no input; name at least one file: mixling train FILE, and with --config a folder: -o DIR")
    refuse_file(options.out)
    started = announce("train")
    from mixling.cli.training import train_labels
    from mixling.workers import use_workers

    if (commands := _other_commands(options)) is not None:
        commands.train(options, started)
        return
    is_asked = options.resume or options.test_fraction is not None
    with use_workers(options.workers):
        train_labels(options, started, baseline=options.baseline, untested="" if is_asked else _UNTESTED)


def _other_commands(options: TrainOptions) -> KindCommands | None:
    """Return the commands of a run that is not on labeled texts; None: it is."""
    from mixling.cli.kinds import commands_of

    kind = _kind(options)
    return None if kind is None else commands_of(kind)


def _kind(options: TrainOptions) -> RunKind | None:
    """Return the kind of run that the options ask for, or that is resumed; None: there is none to resume."""
    from mixling.artifacts.resume import kind_of_run
    from mixling.runs.resolve.kinds import infer_kind

    if options.resume:
        return kind_of_run(options.out)
    return infer_kind(
        task=options.task,
        model=options.model,
        toml=options.config,
        overrides=options.overrides or (),
        pairs=options.has_pair_options(),
        pretrained=options.pretrained,
        files=options.files or (),
        columns_named=any(options.columns().values()),
    )
