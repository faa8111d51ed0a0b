"""Starting, resuming and reporting runs, for the commands that train."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from mixling.cli.folders import check_run_folder, interruptible, refuse_beside_resume, refuse_old_run
from mixling.cli.output import Stopwatch, put, time_budget_line, wrapped
from mixling.cli.panel import command_rows, print_panel
from mixling.cli.training_options import LabeledTraining, TrainerOptions
from mixling.errors import ConfigError

if TYPE_CHECKING:
    from mixling.comparison.benchmark import TrainedSystem
    from mixling.comparison.failures import Failure
    from mixling.metrics.base import Metrics
    from mixling.research.pretraining.run import PretrainConfig
    from mixling.research.seq2seq.config import PairRunConfig
    from mixling.research.vision.config import ImageRunConfig
    from mixling.runs.resolve.config import RunConfig
    from mixling.runs.resolve.spec import Resolved, Spec
    from mixling.runs.run import Run, RunArguments
    from mixling.training.progress import TrainingProgress

_OF_BASELINE = 100_000  # training rows, up to which a baseline is fitted unasked
_SCORES_OF_BASELINE = 20_000_000  # of labels for training rows: logistic regression would take minutes
_C = TypeVar("_C", "RunConfig", "PretrainConfig", "PairRunConfig", "ImageRunConfig")


@dataclass(frozen=True, kw_only=True)
class Session(Generic[_C]):
    """A run that is started or resumed.

    Attributes:
        config: its configuration.
        resolved: how the configuration was resolved; None if the run is resumed.
        terminal: shows the progress.
        arguments: further arguments of `fit`, `pretrain`, `fit_pairs` and `fit_images`.
    """

    config: _C
    resolved: Resolved[_C] | None
    terminal: TrainingProgress
    arguments: RunArguments


@contextlib.contextmanager
def session(
    options: TrainerOptions, values: Mapping[str, Any], *, spec: Spec[_C], kind: str, check: Callable[[_C], None]
) -> Iterator[Session[_C] | None]:
    """Lock the folder of a run, and yield the session that starts or resumes it; None if it is finished.

    Args:
        values: the options as `resolve` takes them.
        spec: the rules that resolve the configuration.
        kind: the name of the kind of run.
        check: raises for a new configuration that the command cannot use.

    Raises:
        ConfigError: an option is given with --resume, the folder is not free, or see `resolve` and `check`.
    """
    from mixling.runs.record import conclude, held
    from mixling.runs.resolve.config import read_record
    from mixling.runs.resolve.spec import resolve
    from mixling.training.distributed import distributed_context
    from mixling.training.progress import TrainingProgress

    out = options.out
    opened_at = time.monotonic()
    with distributed_context() as ranks, held(out, is_main=ranks.is_main):
        terminal = TrainingProgress(silent=not ranks.is_main, verbose=options.verbose)
        resolved = None
        if options.resume:
            config, finished = read_record(out, spec.schema, kind=kind)
            refuse_beside_resume(options)
            if finished:
                conclude(out, config, is_main=ranks.is_main)
                terminal.log(f"{out}: the run is finished; there is nothing to resume")
                yield None
                return
        else:
            if ranks.is_main and not options.overwrite:
                refuse_old_run(out)
            resolved = resolve(values, spec=spec, toml=options.config, overrides=options.overrides or ())
            config = resolved.config
            check(config)
            for remark in resolved.remarks:
                terminal.log(remark)
        if (seconds := config.train.time_budget) is not None:
            terminal.log(time_budget_line(seconds))
        arguments: RunArguments = {
            "folder": out,
            "resume": options.resume,
            "distributed": ranks,
            "callback": terminal,
            "log": terminal.log,
            "started": opened_at,
        }
        yield Session(config=config, resolved=resolved, terminal=terminal, arguments=arguments)


def train_labels(
    options: LabeledTraining,
    started: Stopwatch,
    *,
    check: Callable[[RunConfig], None] = lambda config: None,
    baseline: bool | None = False,
    untested: str = "",
) -> None:
    """Train a model on labeled data, and report how good it is.

    Args:
        untested: printed after the figures where there are no rows to test on.
        check: raises for a configuration that the command cannot use.
        baseline: also fit the task's reference baseline, to compare with; None: where there are rows to test on, and
            training rows are not very many.
    """

    def check_input(config: RunConfig) -> None:
        if not config.data.train:
            raise ConfigError(f"no input; name at least one file: mixling {started.command} FILE -o DIR")
        if baseline and not task_type(config.task).baselines:
            raise ConfigError(f"--baseline: {config.task} has none; leave it out")
        check(config)

    out = options.out
    check_run_folder(options.out, resume=options.resume, overwrite=options.overwrite)
    with interruptible(out):
        from mixling.artifacts.kinds import TRAINING
        from mixling.runs.data import read_splits
        from mixling.runs.resolve.spec import LABELS
        from mixling.runs.training import fit
        from mixling.tasks import task_type

        with session(options, options.values(), spec=LABELS, kind=TRAINING, check=check_input) as opened:
            if opened is None:
                return
            config = opened.config
            terminal = opened.terminal
            terminal.metric = config.metric_key
            # Large data sets are spooled to the run's disk; its folder is created only if the data can be used.
            disk = next(folder for folder in (out, *out.absolute().parents) if folder.is_dir())
            train, validation, test = read_splits(config, spool_dir=disk, log=terminal.log)
            if opened.resolved is not None:
                resolved = opened.resolved.for_examples(train)
                config = resolved.config
                for remark in resolved.remarks:
                    terminal.log(remark)
            reference = None
            ranks = opened.arguments["distributed"]
            if baseline is None:
                kind = task_type(config.task)
                scores = len(train) * (len(train.label_counts()) if kind.has_labels else 1)
                small = len(train) <= _OF_BASELINE and scores <= _SCORES_OF_BASELINE
                baseline = test is not None and small and bool(kind.baselines)
                if baseline and config.train.time_budget is not None:
                    terminal.log("no linear model to compare with: it is not in the time budget (--baseline)")
                    baseline = False
            opened.arguments["tested"] = len(test or ())
            test_texts = () if test is None else tuple(test.texts)
            run = fit(config, train, validation, test_texts=test_texts, **opened.arguments)
            if run is not None and baseline and (ranks is None or ranks.is_main):
                from mixling.comparison.benchmark import fit_reference
                from mixling.training.progress import ProgressLine

                with ProgressLine() as line:
                    reference = fit_reference(config, train, validation, log=line.log)
    if run is not None:
        if test is None:
            _report_validation(run, config, terminal)
            if untested:
                terminal.log(untested)
        else:
            from mixling.cli.results import report_test

            report_test(run, config, train=train, validation=validation, test=test, reference=reference)
        _report_labels(run, config, terminal, started, reference)


def _report_validation(run: Run[Metrics], config: RunConfig, terminal: TrainingProgress) -> None:
    """Print the metrics on the validation examples to standard output, and what they are of to standard error."""
    from mixling.artifacts.seen_rows import describe_seen

    data = run.report["data"]
    put(wrapped(f"{'cross-' * data['cross_validated']}validation: {run.metrics.summary()}") + "\n")
    if line := describe_seen(
        data["validation_seen_before"] or 0, data["validation"], by=str(config.init.pretrained), what="examples"
    ):
        terminal.log(line)
    if data["cross_validated"]:
        terminal.log("each example was judged by models that had not seen it; the exported model is fitted on all")
    elif data["fitted_on_validation"]:
        terminal.log(
            "then the exported model was fitted on the validation examples, too: these are the metrics before; use "
            "other rows to test it"
        )


def _report_labels(
    run: Run[Metrics],
    config: RunConfig,
    terminal: TrainingProgress,
    started: Stopwatch,
    reference: TrainedSystem | Failure | None,
) -> None:
    """Print the closing panel to standard error; with metrics of the validation examples, unless others were tested."""
    from mixling.artifacts.files import TEST_FILE
    from mixling.cli.results import baseline_line
    from mixling.tasks import task_type

    task = task_type(config.task)
    total = config.train.epochs
    is_tested = config.data.is_tested
    size = (run.folder / "model.onnx").stat().st_size
    rows = []
    held_out = run.folder / TEST_FILE if config.data.test_fraction else "TEST_FILE"
    tested = config.data.test or (held_out,)
    if not is_tested:
        rows += [(task.headline.replace("_", " "), value)] if (value := _headline(run)) else []
        rows += [("baseline", line)] if (line := task.comparison_line(run.metrics)) else []
        rows += [("" if line else "baseline", baseline_line(reference, task))] if reference is not None else []
    columns = config.data.columns
    rows += [
        ("file", f"{run.folder / 'model.onnx'}, {size / 1e6:.2f} MB ({run.report['precision']})"),
        ("parameters", f"{run.parameters:,}, {_best_epoch(run, total)}"),
        ("time", started.elapsed()),
        *command_rows([
            ("predict", run.folder, *task.sample_inputs(pairs=bool(columns.text_pair) or bool(columns.features))),
            ("evaluate", run.folder, *tested),
            ("show", run.folder),
        ]),
    ]  # fmt: skip
    print_panel(terminal.console, str(run.folder), rows)


def _best_epoch(run: Run[Metrics], total: int | None) -> str:
    if not run.best["step"]:
        return "in a network that is not read; the n-gram model is alone"
    if run.report["data"]["cross_validated"]:
        return f"{run.best['epoch']:g} epochs"
    return f"best epoch {run.best['epoch']:g}" + (f" of {total}" if total else "")


def _headline(run: Run[Metrics]) -> str:
    """Return the accuracy of a classifier with its 95% interval; "" for other tasks, whose metrics are above."""
    from mixling.metrics.base import ClassificationMetrics
    from mixling.metrics.intervals import wilson

    metrics = run.metrics
    if not isinstance(metrics, ClassificationMetrics):
        return ""
    interval = wilson(metrics.accuracy, metrics.n)
    kind = "examples, by cross-validation" if run.report["data"]["cross_validated"] else "validation examples"
    return f"{metrics.accuracy:.4f} [{interval.low:.4f}, {interval.high:.4f}] on {metrics.n:,} {kind}"
