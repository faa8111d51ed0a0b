"""Options of `mixling train`, as frozen dataclasses."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

import typer

from mixling.cli.command import MODEL
from mixling.cli.completion import TASK_NAMES, complete_tasks
from mixling.cli.options import PairColumnOptions
from mixling.cli.training_options import LabeledDataOptions, LabeledTraining, MetricOptions, UnlabeledOption


@dataclass(frozen=True, kw_only=True)
class PairOptions(PairColumnOptions):
    """Pairs of texts to train on."""

    template: Annotated[
        str | None,
        typer.Option(
            "--template", metavar="NAME", help="Text to text: template of a benchmark task, such as rte or boolq."
        ),
    ] = None

    def has_pair_options(self) -> bool:
        """Return whether an option of text to text is given."""
        return any(value is not None for value in (self.source, self.target, self.template))


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
class TagColumns(LabeledDataOptions):
    """The columns of words and their tags."""

    tokens: Annotated[
        str | None, typer.Option("--tokens", metavar="COLUMN", help="Tagging: column of the words [tokens].")
    ] = None
    slots: Annotated[
        str | None, typer.Option("--slots", metavar="COLUMN", help="Tagging: column of the tags, or of spans [slots].")
    ] = None

    def named_columns(self) -> dict[str, Any]:
        return {**super().named_columns(), "tokens": self.tokens, "slots": self.slots}


@dataclass(frozen=True, kw_only=True)
class TrainOptions(PairOptions, InitOptions, MetricOptions, TagColumns, LabeledTraining):
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

    costs: Annotated[
        str | None,
        typer.Option(
            "--costs",
            metavar="FILE.csv",
            help="Costs of errors, a row for each label and a column for each answer; answer with the least.",
        ),
    ] = None

    label_levels: Annotated[
        str | None,
        typer.Option(
            "--label-levels",
            metavar="SEPARATOR",
            help="Labels have levels, such as ' > ' in 'card > lost': answer from the top down, and with --abstain-at "
            "higher up where uncertain.",
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
            help="Fraction of the rows that is held out to test on, before anything else; 0: none [0.1, or 0.2 of "
            "fewer than 1,000 rows; 0 of fewer than 50, and with --test, --validation or --config].",
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
            "metric": self.metric,
            "costs": self.costs,
            "label_levels": self.label_levels,
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
