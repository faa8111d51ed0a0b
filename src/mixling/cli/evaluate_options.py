"""Options of `mixling evaluate`, as frozen dataclasses, and what it reports."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import typer

from mixling.cli.command import OUTPUT
from mixling.cli.noise import NoiseOptions
from mixling.cli.options import (
    LabeledColumns,
    OnBadRowOption,
    ThresholdOption,
    TooLongOption,
    column_names,
)

if TYPE_CHECKING:
    from mixling.metrics.base import ClassificationMetrics

    Report = tuple[str, dict[str, Any], ClassificationMetrics | None]
    """The text to print, the values to write, and the metrics that have a confusion matrix."""


@dataclass(frozen=True, kw_only=True)
class EvaluateOptions(LabeledColumns, NoiseOptions):
    """The data to evaluate on."""

    files: Annotated[
        list[str],
        typer.Argument(metavar="FILES...", help="Labeled data, in any format of `train`; for images a folder."),
    ]
    by: Annotated[
        list[str] | None,
        typer.Option(
            "--by",
            metavar="COLUMN,...",
            help="Also report metrics by the values of these columns, or `auto`: of all, and the worst slices.",
        ),
    ] = None
    task_name: Annotated[
        str | None,
        typer.Option("--task-name", metavar="NAME", help="Text to text: the task of the data, if there are several."),
    ] = None
    on_bad_row: OnBadRowOption = "error"

    @property
    def sliced_by(self) -> tuple[str, ...]:
        """The columns of `--by`."""
        return column_names("--by", self.by)


@dataclass(frozen=True, kw_only=True)
class ReportOptions:
    """How the metrics are reported."""

    panel: ClassVar[str] = OUTPUT
    out: Annotated[
        Path | None,
        typer.Option("-o", "--out", metavar="FILE", help="Write all metrics to this file: .json, or .html for a page."),
    ] = None
    confusion: Annotated[
        Path | None, typer.Option("--confusion", metavar="FILE.png", help="Draw the confusion matrix to this file.")
    ] = None
    reliability: Annotated[
        bool, typer.Option("--reliability", help="Print the reliability diagram: probabilities against accuracy.")
    ] = False
    reliability_plot: Annotated[
        Path | None,
        typer.Option("--reliability-plot", metavar="FILE.png", help="Draw the reliability diagram to this file."),
    ] = None
    out_of_scope: Annotated[
        list[str] | None,
        typer.Option(
            "--out-of-scope",
            metavar="FILE",
            help="Also report AUROC and false-accept rate on texts that no label fits.",
        ),
    ] = None
    errors: Annotated[
        Path | None,
        typer.Option(
            "--errors", metavar="FILE", help="Write the worst mistakes, explained, to this file (.csv or .jsonl)."
        ),
    ] = None
    threshold: ThresholdOption = None
    too_long: TooLongOption = "windows"
