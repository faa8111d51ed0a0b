"""`mixling tune`: search for better options of training."""

from __future__ import annotations

import signal
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import typer

from mixling.cli.command import MODEL, OUTPUT, TRAINING, given_options
from mixling.cli.completion import complete_models
from mixling.cli.folders import refuse_file
from mixling.cli.guessing import free_folder, holding_out, with_columns
from mixling.cli.output import Stopwatch, announce, put, wrapped
from mixling.cli.training_options import LabeledDataOptions, MetricOptions, SetOption, read_seconds
from mixling.errors import ConfigError, Interrupted, command_line

if TYPE_CHECKING:
    from mixling.data.dataset import Dataset
    from mixling.tuning.study import Result
    from mixling.tuning.tune import Plan

_TRIALS = 40


@dataclass(frozen=True, kw_only=True)
class TunedModels:
    """The models to tune."""

    panel: ClassVar[str] = MODEL
    model: Annotated[
        list[str] | None,
        typer.Option(
            "--model",
            metavar="NAME|FILE.toml",
            help="Name or file of a model [chosen to fit the data]; may be repeated, to compare models.",
            autocompletion=complete_models,
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class SearchOptions:
    """How the search is done."""

    panel: ClassVar[str] = TRAINING
    trials: Annotated[
        int | None,
        typer.Option("--trials", min=1, metavar="N", help="Trials of each model [40 without a time budget]."),
    ] = None
    time_budget: Annotated[
        str | None, typer.Option("--time-budget", metavar="30m|2h", help="Start no trial that would end later.")
    ] = None
    space: Annotated[
        str | None,
        typer.Option("--space", metavar="FILE.toml", help="Keys and their values [eight keys that fit the data]."),
    ] = None
    jobs: Annotated[int | None, typer.Option("--jobs", min=1, metavar="N", help="Trials at the same time [1].")] = None
    seed: Annotated[int | None, typer.Option("--seed", help="Seed of all randomness [0].")] = None
    config: Annotated[
        str | None,
        typer.Option("--config", metavar="FILE.toml", help="Configuration of all trials, as of `mixling config`."),
    ] = None
    overrides: SetOption = None


@dataclass(frozen=True, kw_only=True)
class SearchFolder:
    """The folder of a search."""

    panel: ClassVar[str] = OUTPUT
    out: Annotated[
        Path | None, typer.Option("-o", "--out", metavar="DIR", help="Folder of the search [FILE-tuned].")
    ] = None
    resume: Annotated[
        bool,
        typer.Option("--resume", help="Continue the search in DIR; --trials, --time-budget and --jobs may change."),
    ] = False


@dataclass(frozen=True, kw_only=True)
class TuneOptions(MetricOptions, LabeledDataOptions, TunedModels, SearchOptions, SearchFolder):
    """Options of `mixling tune`."""

    def values(self, model: str | None) -> dict[str, Any]:
        """Return the options in the layout of `RunConfig`."""
        return {
            **self.data_values(),
            "model": model,
            "train": {"seed": self.seed},
            "decisions": {"metric": self.metric},
        }

    @property
    def seconds(self) -> float | None:
        """The time budget in seconds."""
        return None if self.time_budget is None else read_seconds(self.time_budget)


_WITH_RESUME = ("--resume", "--out", "--trials", "--time-budget", "--jobs")


def tune_command(options: TuneOptions) -> None:
    """Search for better options of training.

    Values are drawn at random. Each trial is a run in DIR/trials. The configuration that is best on
    the validation examples is trained again and exported to DIR/best, on these examples too unless --validation names
    them. As in `mixling train`, some rows are held out before, unless --validation names files, and test that model in
    the end. `mixling tune --resume -o DIR` continues a search that was interrupted, without losing a trial.
    """
    out = options.out
    if options.resume:
        if out is None:
            raise ConfigError("--resume: name the folder of the search: mixling tune --resume -o DIR")
        if also := [name for name in given_options(options) if name not in _WITH_RESUME]:
            raise ConfigError(f"--resume takes all other options from {out}; leave out {', '.join(also)}")
    else:
        if not options.files:
            raise ConfigError("no input; name at least one file: mixling tune FILE")
        out = out or free_folder(options.files[0], "tuned")
        options = with_columns(holding_out(options, config=options.config), "tune")
    refuse_file(out)
    seconds = options.seconds
    started = announce("tune", loads="PyTorch")
    from mixling.storage import locked
    from mixling.training.interrupts import Terminated, terminations

    try:
        with terminations(), locked(out):
            _tune(options, out, seconds, started)
    except KeyboardInterrupt as error:
        from mixling.tuning.tune import PLAN_FILE

        resume = command_line("mixling", "tune", "--resume", "-o", out)
        hint = f"resume with: {resume}" if (out / PLAN_FILE).exists() else "nothing was changed"
        signum = signal.SIGTERM if isinstance(error, Terminated) else signal.SIGINT
        raise Interrupted(f"interrupted; {hint}", signum=signum) from None


def _tune(options: TuneOptions, out: Path, seconds: float | None, started: Stopwatch) -> None:
    from mixling.artifacts.files import TEST_FILE
    from mixling.cli.results import report_test
    from mixling.runs.data import read_splits
    from mixling.tables import terminal_width
    from mixling.training.progress import TrainingProgress
    from mixling.tuning.cost import ResultCost
    from mixling.tuning.report import search_summary, trial_line, write_reports
    from mixling.tuning.tune import BEST_FOLDER, Search, data_hash, open_studies, read_plan, train_best, write_plan

    terminal = TrainingProgress()
    if options.resume:
        plan = read_plan(out)
        changed = {"trials": options.trials, "time_budget": seconds, "jobs": options.jobs}
        plan = plan.model_copy(update={name: value for name, value in changed.items() if value is not None})
        base = next(iter(plan.bases.values()))
        train, validation, test = read_splits(base, spool_dir=None, log=lambda message: None)
        if data_hash(train, validation) != plan.data_sha256:
            raise ConfigError(f"{out}: the data are not those that the search began with; start one in another folder")
    else:
        plan, train, validation, test = _new_plan(options, out, seconds, terminal)
    metric = plan.metric_key.replace("_", " ")
    studies = open_studies(out, plan)
    write_plan(out, plan)
    search = Search(out, plan, studies, log=terminal.log)
    total = "" if plan.trials is None else f" of {plan.trials}"
    best: list[float] = []

    def finished(result: Result) -> None:
        number = "default" if result.number is None else f"trial {result.number}"
        name = f"{result.model} {number}" if len(plan.bases) > 1 else number
        outcome = f"failed: {result.error}"
        mark = ""
        if result.value is not None:
            better = not best or (result.value < best[0] if plan.less_is_better else result.value > best[0])
            best[:] = [result.value] if better else best
            mark = "  (best so far)" if better else ""
            outcome = f"{metric} {result.value:.4f}  {result.seconds or 0:.0f} s"
        terminal.log(f"{name}{total if result.number is not None else ''}: {outcome}{mark}  {trial_line(result)}")

    search.finished = finished
    if (known := search.best()) is not None and known.value is not None:
        best.append(known.value)
    search.run()
    write_reports(search, metric=metric, log=terminal.log)
    chosen = search.best()
    if chosen is None:
        raise ConfigError("no trial has a result; see trials.csv for the errors")
    config = plan.configure(chosen.model, chosen.params)
    on = "all examples" if config.fits_validation else "the training examples, as in its trial"
    terminal.log(f"training the best configuration again, on {on}: {out / BEST_FOLDER}")
    final = TrainingProgress()
    final.metric = plan.metric_key
    run = train_best(
        config, train, validation,
        folder=out / BEST_FOLDER, threads=plan.threads, callback=final, log=lambda message: None,
    )  # fmt: skip
    terminal.log(started.total_time())
    cost = ResultCost.of(config.model, examples=len(train), trainings=len(search.results()))
    summary = search_summary(search, chosen, metric=metric, examples=len(validation), room=terminal_width())
    put(wrapped("\n".join([*summary, cost.line()])) + "\n")
    if test is not None and run is not None:
        report_test(run, config, train=train, validation=validation, test=test, reference=None)
    tested = "TEST_FILE" if test is None else out / BEST_FOLDER / TEST_FILE
    twice = str(studies.count(chosen.model) * 2)
    terminal.log(
        f"next:  {command_line('mixling', 'evaluate', out / BEST_FOLDER, tested)}\n"
        f"       {command_line('mixling', 'tune', '--resume', '-o', out, '--trials', twice)}"
    )


def _new_plan(
    options: TuneOptions, out: Path, seconds: float | None, terminal: Any
) -> tuple[Plan, Dataset, Dataset, Dataset | None]:
    """Resolve the options, read the data, and check the space of each model."""
    from mixling.config import dotted, parse, read_overrides, read_toml
    from mixling.runs.data import read_splits
    from mixling.runs.resolve.choice import choose_model
    from mixling.runs.resolve.spec import LABELS, resolve
    from mixling.tasks import task_type
    from mixling.tuning.space import Dimension, check_space, default_space, read_space
    from mixling.tuning.tune import PLAN_FILE, Plan, configured, data_hash

    if (out / PLAN_FILE).exists():
        raise ConfigError(f"{out}: holds a search; continue it with --resume, or give another folder")
    space = None if options.space is None else read_space(options.space)
    overrides = options.overrides or ()
    models: list[str | None] = [*(options.model or ())] or [None]
    found = {
        _name(model): resolve(options.values(model), spec=LABELS, toml=options.config, overrides=overrides)
        for model in models
    }
    if len(found) < len(models):
        raise ConfigError("--model: two models have the same name; give one of the files another name")
    first = next(iter(found.values()))
    for remark in first.remarks:
        terminal.log(remark)
    train, validation, test = read_splits(first.config, spool_dir=None, log=terminal.log)
    bases = {}
    spaces = {}
    fixed = {*dotted(read_overrides(overrides)), *dotted(read_toml(options.config) if options.config else {})}
    for name, resolved in found.items():
        chosen = resolved.for_examples(train)
        base = chosen.config
        if not resolved.model_named:
            name = choose_model(train, resolved.config).name
        for remark in chosen.remarks:
            terminal.log(remark)
        labels = len(train.label_counts()) if task_type(base.task).has_classes else None
        own: dict[str, Dimension] = space or {
            key: item
            for key, item in default_space(base, examples=len(train), labels=labels).items()
            if key not in fixed
        }
        where = options.space or f"the default space of {name}"
        check_space(own, lambda params, base=base: configured(base, params), where=where)  # type: ignore[misc]
        bases[name] = base
        spaces[name] = own
    values = {
        "seed": options.seed,
        "jobs": options.jobs,
        "trials": options.trials or (_TRIALS if seconds is None else None),
        "time_budget": seconds,
    }
    given = {key: value for key, value in values.items() if value is not None}
    made = {
        "bases": {name: base.to_dict() for name, base in bases.items()},
        "data_sha256": data_hash(train, validation),
    }
    made["spaces"] = {name: {key: item.to_dict() for key, item in own.items()} for name, own in spaces.items()}
    return parse(Plan, {**made, **given}, where="options"), train, validation, test


def _name(model: str | None) -> str:
    """Return the name of a model's study and folder."""
    return "model" if model is None else Path(model).stem if model.endswith(".toml") else model
