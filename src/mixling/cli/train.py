"""`mixling train`: labelled files to a model folder."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from types import MappingProxyType
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
    layered,
    present,
    run_values,
)
from mixling.cli.output import announce, put, time_budget_line, total_time
from mixling.cli.text_to_text import is_text_to_text, train_pairs
from mixling.errors import ConfigError, command_line
from mixling.tasks import infer_task, task_type

if TYPE_CHECKING:
    from mixling.runs import Run, RunConfig
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
        done = _run(context, present(options), taught=taught)
    if done is not None:
        run, settled, terminal = done
        terminal.say(total_time(context))
        if line := task_type(settled.task).comparison_line(run.metrics, run.labels):
            terminal.say(line)
        _tell(run, settled, terminal)


def _run(
    context: typer.Context, given: Mapping[str, Any], *, taught: bool
) -> tuple[Run, RunConfig, TrainingProgress] | None:
    from mixling import runs
    from mixling.runs.record import conclude, held
    from mixling.training.distributed import processes
    from mixling.training.progress import TrainingProgress

    out, overrides = context.params["out"], context.params["overrides"] or ()
    config, vocabulary = context.params["config"], context.params["vocabulary"]
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
        settle = None
        if given or config or overrides or vocabulary:
            settle = functools.partial(configure, given, toml=config, vocabulary=vocabulary, overrides=overrides)
            settled, remark = settle()
            if remark:
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
        terminal.metric = task_type(settled.task).metric
        # Rows too many for memory lie on the disk of the run; the folder itself is made when they are found good.
        disk = next(folder for folder in (out, *out.absolute().parents) if folder.is_dir())
        train_rows, dev_rows = runs.read_data(settled, spool_dir=disk, say=terminal.say)
        if settle is not None and not is_model_given(given, config, overrides):
            choice = runs.choose_model(train_rows, settled)
            settled, _ = settle(chosen=choice.values)
            terminal.say(f"model: {choice.name} ({choice.why}; --model takes another)")
        run = runs.fit(
            settled, train_rows, dev_rows,
            folder=out, resume=resume, processes=ranks, observer=terminal, say=terminal.say,
        )  # fmt: skip
    return None if run is None else (run, settled, terminal)


def is_model_given(options: Mapping[str, Any], toml: str | None, overrides: Sequence[str]) -> bool:
    """Whether the user names a model; single values of one are laid over the one that is chosen."""
    from mixling.config import read_overrides, read_toml

    values = read_toml(toml) if toml else {}
    return (
        "model" in options
        or _pretrained(options, values, overrides) is not None
        or isinstance(read_overrides(overrides).get("model"), str)
        or isinstance(values.get("model"), str)
        or bool({"preset", "layers"} & set(values.get("model", {})))
    )


def configure(
    options: Mapping[str, Any],
    *,
    toml: str | None,
    vocabulary: str | None,
    overrides: Sequence[str],
    chosen: Mapping[str, Any] = MappingProxyType({}),
) -> tuple[RunConfig, str]:
    """The configuration of a run: the TOML file's values, over them the options, over them `--set`.

    Args:
        chosen: what `choose_model` says, below all else; until the rows are known, nothing.

    Returns:
        the configuration, and a remark on the task where it was not given.

    Raises:
        ConfigError: an unknown key or a value that is not allowed.
        DataError: the first training file, looked at for the task, cannot be read.
    """
    from mixling.config import merge, parse
    from mixling.models.presets import DEFAULT_PRESET, preset_values, with_changes
    from mixling.runs import RunConfig
    from mixling.runs.pretrained import FINE_TUNING, pretrained_config

    values, model_changes = layered(options, toml=toml, vocabulary=vocabulary, overrides=overrides)
    given = values.get("model", {})
    folder = values.get("start", {}).get("pretrained")
    if folder is not None:
        if isinstance(given, str) or {"preset", "layers"} & given.keys():
            raise ConfigError(f"--from {folder} is the model; leave out --model")
        if "vocabulary" in {**given.get("text", {}), **model_changes.get("text", {})}:
            raise ConfigError(f"--from {folder} has the units that it was trained with; leave out --vocabulary")
        given = merge(pretrained_config(folder), given)
    if not (isinstance(given, str) or {"preset", "layers"} & given.keys()):
        given = merge({"preset": DEFAULT_PRESET}, merge(chosen.get("model", {}), given))
    recipe = preset_values(given if isinstance(given, str) else given.get("preset", ""))
    if "start" in values:  # the user's own takes its place
        recipe = {key: value for key, value in recipe.items() if key != "start"}
    if folder is not None:
        recipe = {"train": FINE_TUNING}
    values = merge(recipe, values)
    values["model"] = with_changes(given, model_changes).to_dict()
    remark = ""
    if "task" not in values:
        values["task"], why = infer_task(values.get("data", {}))
        remark = f"task: {values['task']} ({why}; --task chooses another)"
    return parse(RunConfig, values, where=toml or "options"), remark


def _pretrained(options: Mapping[str, Any], values: Mapping[str, Any], overrides: Sequence[str]) -> str | None:
    """The folder to begin with, where one is named."""
    from mixling.config import read_overrides

    named = (options, read_overrides(overrides), values)
    return next((folder for item in named if (folder := item.get("start", {}).get("pretrained"))), None)


def _tell(run: Run, settled: RunConfig, terminal: Any) -> None:
    """The result on standard output, what to do next on standard error."""
    size = (run.folder / "model.onnx").stat().st_size
    best = next(record for record in reversed(run.history) if record["best"])
    example = task_type(settled.task).sample_inputs(pairs=settled.data.columns.text_pair is not None)
    put(f"dev: {run.metrics.summary()}\n")
    terminal.say(
        f"{run.folder}: model.onnx has {size / 1e6:.2f} MB ({run.precision}), {run.parameters:,} parameters, "
        f"best epoch {best['epoch']:g}\n"
        f"next:  {command_line('mixling', 'predict', run.folder, *example)}\n"
        f"       {command_line('mixling', 'evaluate', run.folder, 'TEST_FILE')}\n"
        f"       {command_line('mixling', 'show', run.folder)}"
    )
