"""`mixling distill`: a large model's answers to a small model that gives them."""

from __future__ import annotations

from typing import Annotated

import typer

from mixling.cli.options import (
    ConfigOption,
    DevFractionOption,
    DevOption,
    EpochsOption,
    GroupOption,
    LabelOption,
    ModelOption,
    OnBadRowOption,
    OverwriteOption,
    ResumeOption,
    RowsArgument,
    RunOption,
    SeedOption,
    SetOption,
    SlotsOption,
    StartOption,
    TaskOption,
    TextOption,
    TextPairOption,
    TimeBudgetOption,
    TokensOption,
    VocabularyOption,
    run_values,
)
from mixling.cli.output import announce


def distill(
    context: typer.Context,
    files: RowsArgument = None,
    out: RunOption = ...,  # type: ignore[assignment]
    teacher: Annotated[
        str | None,
        typer.Option(
            "--teacher",
            metavar="MODEL|FILE",
            help="A run folder, a transformers folder, hf:NAME[@REVISION], a file of texts and probabilities, or self.",
        ),
    ] = None,
    unlabelled: Annotated[
        list[str] | None,
        typer.Option("--unlabelled", metavar="FILE", help="Text for the teacher to label; may be repeated."),
    ] = None,
    fine_tune: Annotated[
        bool, typer.Option("--fine-tune", help="Train the transformers teacher on the labelled rows first.")
    ] = False,
    test: Annotated[
        list[str] | None,
        typer.Option("--test", metavar="FILE", help="Rows whose texts the student must not see; may be repeated."),
    ] = None,
    pieces: Annotated[
        str | None,
        typer.Option("--pieces", metavar="auto|sentences|documents", help="What of the unlabelled text is one text."),
    ] = None,
    limit: Annotated[int | None, typer.Option("--limit", help="Unlabelled texts, drawn at random [40000].")] = None,
    dev: DevOption = None,
    dev_fraction: DevFractionOption = None,
    text: TextOption = None,
    text_pair: TextPairOption = None,
    label: LabelOption = None,
    tokens: TokensOption = None,
    slots: SlotsOption = None,
    group: GroupOption = None,
    task: TaskOption = None,
    model: ModelOption = None,
    vocabulary: VocabularyOption = None,
    start: StartOption = None,
    epochs: EpochsOption = None,
    time_budget: TimeBudgetOption = None,
    seed: SeedOption = None,
    on_bad_row: OnBadRowOption = None,
    config: ConfigOption = None,
    overrides: SetOption = None,
    resume: ResumeOption = False,
    overwrite: OverwriteOption = False,
) -> None:
    """Train a small model on what a larger one says.

    It learns from the labelled rows and from the teacher's probabilities for them and for unlabelled text.
    The teacher and its answers are kept in DIR/teacher: another student with --overwrite, or --resume after
    an interruption, asks only for what is not there.
    """
    from mixling.cli.train import run_training

    announce(context)
    values = run_values(context.params)
    values["start"]["texts"] = None  # the student begins with the text that is labelled, see `mixling.runs.start`
    values["distill"] = {
        "teacher": teacher,
        "unlabelled": unlabelled if teacher is not None or config is not None else None,
        "fine_tune": fine_tune or None,
        "test": test,
        "pieces": pieces,
        "limit": limit,
    }
    run_training(context, values, taught=True)
