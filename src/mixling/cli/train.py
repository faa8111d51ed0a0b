"""`mixling train`: labelled files to a model folder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mixling.cli.folders import interruptible, refuse_beside_resume, refuse_file, refuse_old_run
from mixling.cli.options import (
    AnyTaskOption,
    ConfigOption,
    DevFractionOption,
    DevOption,
    EpochsOption,
    FormOption,
    FromOption,
    GroupOption,
    KindOption,
    LabelOption,
    ModelOption,
    OnBadRowOption,
    OverwriteOption,
    PrefixOption,
    ResumeOption,
    RowsArgument,
    RunOption,
    SeedOption,
    SetOption,
    SlotsOption,
    SourceOption,
    StartOption,
    TargetOption,
    TextOption,
    TextPairOption,
    TimeBudgetOption,
    TokensOption,
    VocabularyOption,
    run_values,
)
from mixling.cli.output import announce, put, time_budget_line, total_time
from mixling.cli.text_to_text import is_text_to_text, train_pairs
from mixling.errors import ConfigError, command_line

if TYPE_CHECKING:
    from mixling.runs import Run, RunConfig
    from mixling.tasks.metrics import Metrics
    from mixling.training.progress import TrainingProgress


def train(
    context: typer.Context,
    files: RowsArgument = None,
    out: RunOption = ...,  # type: ignore[assignment]
    dev: DevOption = None,
    dev_fraction: DevFractionOption = None,
    text: TextOption = None,
    text_pair: TextPairOption = None,
    label: LabelOption = None,
    tokens: TokensOption = None,
    slots: SlotsOption = None,
    group: GroupOption = None,
    source: SourceOption = None,
    target: TargetOption = None,
    kind: KindOption = None,
    form: FormOption = None,
    prefix: PrefixOption = None,
    task: AnyTaskOption = None,
    model: ModelOption = None,
    vocabulary: VocabularyOption = None,
    start: StartOption = None,
    unlabelled: Annotated[
        list[str] | None,
        typer.Option("--unlabelled", metavar="FILE", help="Begin with word vectors of this text; may be repeated."),
    ] = None,
    pretrained: FromOption = None,
    epochs: EpochsOption = None,
    time_budget: TimeBudgetOption = None,
    seed: SeedOption = None,
    on_bad_row: OnBadRowOption = None,
    config: ConfigOption = None,
    overrides: SetOption = None,
    resume: ResumeOption = False,
    overwrite: OverwriteOption = False,
) -> None:
    """Train a model on labelled rows.

    `mixling train --resume -o DIR` alone takes all else from DIR.
    """
    refuse_file(out)
    announce(context)
    if is_text_to_text(context.params):
        train_pairs(context)
        return
    run_training(context, run_values(context.params))


def run_training(context: typer.Context, options: Mapping[str, Any], *, taught: bool = False) -> None:
    """What `train` and `distill` do.

    Args:
        options: as `run_values` lays them out; the others are those of the context.
        taught: there must be a teacher.
    """
    out, resume = context.params["out"], context.params["resume"]
    if resume and context.params["overwrite"]:
        raise ConfigError("--resume and --overwrite exclude each other: resume the run, or replace it")
    refuse_file(out)
    with interruptible(out):
        done = _run(context, options, taught=taught)
    if done is not None:
        run, settled, terminal = done
        terminal.say(total_time(context))
        if line := _majority_line(run.metrics, run.labels.names):
            terminal.say(line)
        _tell(run, settled, terminal)


def _run(
    context: typer.Context, options: Mapping[str, Any], *, taught: bool
) -> tuple[Run, RunConfig, TrainingProgress] | None:
    from mixling import runs
    from mixling.config import present
    from mixling.runs.record import conclude, held
    from mixling.runs.spec import LABELS, resolve
    from mixling.training.distributed import processes
    from mixling.training.progress import TrainingProgress

    out, overrides, config = context.params["out"], context.params["overrides"] or (), context.params["config"]
    given = present({**options, "vocabulary": context.params["vocabulary"]})
    resume = context.params["resume"]
    with processes() as ranks, held(out, is_main=ranks.is_main):
        terminal = TrainingProgress(silent=not ranks.is_main)
        if resume:
            settled, finished = runs.resumed_config(out)
            refuse_beside_resume(context)
            if finished:
                conclude(out, is_main=ranks.is_main)
                terminal.say(f"{out}: this run is finished; there is nothing to resume")
                return None
        elif ranks.is_main and not context.params["overwrite"]:
            refuse_old_run(out)
        resolved = None
        if given or config or overrides:
            resolved = resolve(given, spec=LABELS, toml=config, overrides=overrides)
            settled = resolved.config
            for remark in resolved.remarks:
                terminal.say(remark)
            if taught and settled.distill is None:
                raise ConfigError(
                    "no teacher; --teacher names one: a run folder, a folder of the transformers library, hf:NAME, a "
                    "file of texts and probabilities, or self"
                )
        elif not resume:
            raise ConfigError(f"no input; name at least one file: mixling {context.info_name} FILE -o DIR")
        if settled.train.time_budget is not None:
            terminal.say(time_budget_line(settled.train.time_budget))
        terminal.metric = runs.TASKS[settled.task][0].metric
        # Rows too many for memory lie on the disk of the run; the folder itself is made when they are found good.
        disk = next(folder for folder in (out, *out.absolute().parents) if folder.is_dir())
        train_rows, dev_rows = runs.read_data(settled, spool_dir=disk, say=terminal.say)
        if resolved is not None:
            resolved = resolved.for_examples(train_rows)
            settled = resolved.config
            for remark in resolved.remarks:
                terminal.say(remark)
        run = runs.fit(
            settled, train_rows, dev_rows,
            folder=out, resume=resume, processes=ranks, observer=terminal, say=terminal.say,
        )  # fmt: skip
    return None if run is None else (run, settled, terminal)


def _majority_line(metrics: Metrics, labels: Sequence[str]) -> str:
    """What a model would reach that always gives the label of most validation rows."""
    from mixling.errors import printable
    from mixling.tasks.metrics import ClassificationMetrics

    if not isinstance(metrics, ClassificationMetrics):
        return ""
    counts = [sum(row) for row in metrics.confusion]
    most = max(range(len(counts)), key=counts.__getitem__)
    return f"for comparison: always {printable(labels[most])!r} has accuracy {counts[most] / metrics.n:.4f}"


def _tell(run: Run, settled: RunConfig, terminal: Any) -> None:
    """The result on standard output, what to do next on standard error."""
    size = (run.folder / "model.onnx").stat().st_size
    best = next(record for record in reversed(run.history) if record["best"])
    example = ["a text" if settled.data.columns.text_pair is None else "FILE"]
    if settled.task == "question_answering":
        example = ["--question", "a question", "--context", "a text"]
    put(f"dev: {run.metrics.summary()}\n")
    terminal.say(
        f"{run.folder}: model.onnx has {size / 1e6:.2f} MB ({run.precision}), {run.parameters:,} parameters, "
        f"best epoch {best['epoch']:g}\n"
        f"next:  {command_line('mixling', 'predict', run.folder, *example)}\n"
        f"       {command_line('mixling', 'evaluate', run.folder, 'TEST_FILE')}\n"
        f"       {command_line('mixling', 'show', run.folder)}"
    )
