"""What the commands that train share: a run begins in its folder or is resumed there, and its result is printed."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from mixling.cli.folders import check_run_folder, interruptible, refuse_beside_resume, refuse_old_run
from mixling.cli.options import LabeledTraining, TrainerOptions
from mixling.cli.output import Started, put, time_budget_line
from mixling.errors import ConfigError, command_line

if TYPE_CHECKING:
    from mixling.metrics.base import Metrics
    from mixling.runs import Run, RunConfig
    from mixling.runs.pretrain import PretrainConfig
    from mixling.runs.spec import Resolved, Spec
    from mixling.seq2seq.config import PairRunConfig
    from mixling.seq2seq.metrics import TextMetrics
    from mixling.training.progress import TrainingProgress

C = TypeVar("C", "RunConfig", "PretrainConfig", "PairRunConfig")


@dataclass(frozen=True, kw_only=True)
class Session(Generic[C]):
    """A run that begins in a folder or is resumed there.

    resolved: how its configuration was made; None of a run that is resumed. arguments: those of `fit`, `pretrain` and
    `fit_pairs` beside the configuration.
    """

    config: C
    resolved: Resolved[C] | None
    terminal: TrainingProgress
    arguments: Mapping[str, Any]


@contextlib.contextmanager
def session(
    options: TrainerOptions, values: Mapping[str, Any], *, spec: Spec[C], kind: str, check: Callable[[C], None]
) -> Iterator[Session[C] | None]:
    """Begin the run of a command line or resume it, and hold its folder meanwhile; None where it is finished.

    Args:
        values: the options as `resolve` takes them.
        kind: of the run's record.
        check: refuses a new configuration that the command cannot use.

    Raises:
        ConfigError: an option beside --resume, a folder that is not free, or as `resolve` and `check`.
    """
    from mixling.runs.config import read_record
    from mixling.runs.record import conclude, held
    from mixling.runs.spec import resolve
    from mixling.training.distributed import distributed_context
    from mixling.training.progress import TrainingProgress

    out = options.out
    with distributed_context() as ranks, held(out, is_main=ranks.is_main):
        terminal = TrainingProgress(silent=not ranks.is_main)
        resolved = None
        if options.resume:
            config, finished = read_record(out, spec.schema, kind=kind)
            refuse_beside_resume(options)
            if finished:
                conclude(out, config, is_main=ranks.is_main)
                terminal.log(f"{out}: this run is finished; there is nothing to resume")
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
        arguments = {
            "folder": out,
            "resume": options.resume,
            "distributed": ranks,
            "callback": terminal,
            "log": terminal.log,
        }
        yield Session(config=config, resolved=resolved, terminal=terminal, arguments=arguments)


def train_labels(
    options: LabeledTraining, started: Started, *, check: Callable[[RunConfig], None] = lambda config: None
) -> None:
    """Train a model on labeled rows.

    Args:
        check: refuses a configuration that the command cannot use.
    """

    def check_input(config: RunConfig) -> None:
        if not config.data.train:
            raise ConfigError(f"no input; name at least one file: mixling {started.command} FILE -o DIR")
        check(config)

    out = options.out
    check_run_folder(options)
    with interruptible(out):
        from mixling import runs
        from mixling.runs.artifact import TRAINING
        from mixling.runs.spec import LABELS
        from mixling.tasks import task_type

        with session(options, options.values(), spec=LABELS, kind=TRAINING, check=check_input) as found:
            if found is None:
                return
            config, terminal = found.config, found.terminal
            terminal.metric = task_type(config.task).metric
            # Rows too many for memory lie on the disk of the run; the folder itself is made when they are found good.
            disk = next(folder for folder in (out, *out.absolute().parents) if folder.is_dir())
            train, validation = runs.read_data(config, spool_dir=disk, log=terminal.log)
            if found.resolved is not None:
                resolved = found.resolved.for_examples(train)
                config = resolved.config
                for remark in resolved.remarks:
                    terminal.log(remark)
            run = runs.fit(config, train, validation, **found.arguments)
    if run is not None:
        terminal.log(started.total_time())
        _report_labels(run, config, terminal)


def _report_labels(run: Run[Metrics], config: RunConfig, terminal: TrainingProgress) -> None:
    """Print the result on standard output, what to do next on standard error."""
    from mixling.tasks import task_type

    task = task_type(config.task)
    if line := task.comparison_line(run.metrics):
        terminal.log(line)
    size = (run.folder / "model.onnx").stat().st_size
    example = task.sample_inputs(pairs=config.data.columns.text_pair is not None)
    put(f"validation: {run.metrics.summary()}\n")
    terminal.log(
        f"{run.folder}: model.onnx has {size / 1e6:.2f} MB ({run.report['precision']}), {run.parameters:,} parameters, "
        f"best epoch {run.best['epoch']:g}\n"
        f"next:  {command_line('mixling', 'predict', run.folder, *example)}\n"
        f"       {command_line('mixling', 'evaluate', run.folder, 'TEST_FILE')}\n"
        f"       {command_line('mixling', 'show', run.folder)}"
    )


def train_pairs(options: TrainerOptions, values: Mapping[str, Any], started: Started) -> None:
    """Train a model that writes text, on pairs of texts or on spans of unlabeled text.

    Args:
        values: the options as `resolve` takes them.
    """

    def check(config: PairRunConfig) -> None:
        if not config.tasks and config.corpus is None:
            raise ConfigError(f"no input; name at least one file: mixling {started.command} FILE -o DIR")

    check_run_folder(options)
    with interruptible(options.out):
        from mixling.runs.artifact import TEXT_TO_TEXT
        from mixling.seq2seq.config import PAIRS
        from mixling.seq2seq.run import fit_pairs

        with session(options, values, spec=PAIRS, kind=TEXT_TO_TEXT, check=check) as found:
            if found is None:
                return
            terminal = found.terminal
            terminal.metric = "exact_match" if found.config.tasks else "perplexity"
            run = fit_pairs(found.config, command=started.command, **found.arguments)
    if run is not None:
        terminal.log(started.total_time())
        _report_pairs(run, terminal)


def _report_pairs(run: Run[dict[str, TextMetrics]], terminal: TrainingProgress) -> None:
    for name, metrics in run.metrics.items():
        put(f"validation: {f'{name}: ' if len(run.metrics) > 1 else ''}{metrics.summary()}\n")
    following: list[tuple[str | Path, ...]] = [
        ("generate", run.folder, "a text"),
        ("evaluate", run.folder, "TEST_FILE"),
    ]
    if not run.metrics:
        held_out = run.report["held_out"]
        put(f"held-out: perplexity {held_out['perplexity']:.3f}, accuracy {held_out['accuracy']:.4f}\n")
        following = [("train", "PAIRS", "--task", "text2text", "--from", run.folder, "-o", "DIR")]
    commands = "\n       ".join(command_line("mixling", *words) for words in following)
    terminal.log(f"{run.folder}: {run.parameters:,} parameters\nnext:  {commands}")
