"""Options of `mixling predict`, as frozen dataclasses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import typer

from mixling.cli.command import OUTPUT
from mixling.cli.options import (
    CellOptions,
    EscapeOption,
    InputColumns,
    PredictionOptions,
    ThreadsOption,
    ThresholdOption,
    TooLongOption,
    column_names,
)

if TYPE_CHECKING:
    from mixling.tasks.presentation import Shown


@dataclass(frozen=True, kw_only=True)
class Question(InputColumns):
    """Columns of the inputs, or a question."""

    question: Annotated[
        str | None,
        typer.Option("--question", metavar="TEXT|COLUMN", help="A question, without INPUT; of files, its column."),
    ] = None
    context: Annotated[
        str | None,
        typer.Option(
            "--context", metavar="TEXT|COLUMN", help="The text that may contain the answer; of files, its column."
        ),
    ] = None

    def named_columns(self) -> dict[str, Any]:
        return {**super().named_columns(), "question": self.question, "context": self.context}


@dataclass(frozen=True, kw_only=True)
class Written:
    """What is written with each prediction."""

    panel: ClassVar[str] = OUTPUT
    keep: Annotated[
        list[str] | None,
        typer.Option("--columns", metavar="NAME,...", help="Also write these columns of the input, such as id."),
    ] = None
    top_k: Annotated[
        int | None, typer.Option("--top-k", min=1, help="Only the probabilities of the N most probable labels.")
    ] = None
    probabilities: Annotated[
        bool | None,
        typer.Option(
            "--probabilities/--no-probabilities",
            help="CSV: a column for each label, instead of the label; or write no probabilities.",
        ),
    ] = None

    @property
    def shown(self) -> Shown:
        """The probabilities that are written."""
        from mixling.tasks.presentation import Shown

        return Shown(top_k=self.top_k, probabilities=self.probabilities)

    @property
    def kept(self) -> tuple[str, ...]:
        """The names of the columns that are kept; a name with a comma is in double quotes."""
        return column_names("--columns", self.keep)


@dataclass(frozen=True, kw_only=True)
class BulkOptions:
    """Options of bulk prediction."""

    panel: ClassVar[str] = OUTPUT
    engine: Annotated[
        str | None,
        typer.Option(
            "--engine", metavar="processes|ray", help="FOLDER/: processes of this machine [processes], or tasks of Ray."
        ),
    ] = None
    workers: Annotated[
        int | None,
        typer.Option("--workers", min=1, max=1024, help="FOLDER/: processes or tasks at a time [one for each CPU]."),
    ] = None
    resume: Annotated[
        bool, typer.Option("--resume", help="FOLDER/: predict the missing parts, or begin; inputs may be added.")
    ] = False


@dataclass(frozen=True, kw_only=True)
class PredictOptions(BulkOptions, Written, CellOptions, PredictionOptions, Question):
    """Options of `mixling predict`."""

    inputs: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="INPUT...",
            help="Texts; or files (.txt: one text per line); or - for standard input; with -o FOLDER/ also URLs, and "
            "wildcards in quotes. Of a model of images: image files, or folders of them.",
        ),
    ] = None
    out: Annotated[
        str | None,
        typer.Option(
            "-o",
            "--out",
            metavar="FILE|FOLDER/",
            help="Write to this file, once complete, or FOLDER of bulk prediction.",
        ),
    ] = None
    output_format: Annotated[
        str | None,
        typer.Option(
            "--format",
            metavar="jsonl|csv|text|parquet",
            help="By default from FILE's name, or as the files of INPUT; text on a terminal.",
        ),
    ] = None
    echo: Annotated[bool, typer.Option("--echo", help="Also write each text.")] = False
    escape: EscapeOption = False
    threshold: ThresholdOption = None
    too_long: TooLongOption = "windows"
    threads: ThreadsOption = 1
    url: Annotated[
        str | None,
        typer.Option("--url", metavar="URL", help="Ask a server (`mixling serve`), where MODEL is a model's name."),
    ] = None
