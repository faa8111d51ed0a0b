"""Models from text to text on the command line: training and evaluation; `mixling generate` is a command of its own."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mixling.artifacts.files import read_config
from mixling.cli.command import given_options
from mixling.cli.folders import check_run_folder, interruptible
from mixling.cli.kinds import KindCommands, refuse_options
from mixling.cli.output import Stopwatch, put
from mixling.cli.panel import command_rows, print_panel
from mixling.cli.training import session
from mixling.cli.training_options import TrainerOptions
from mixling.errors import ConfigError, command_line
from mixling.research.pretraining.commands import hidden_tokens
from mixling.research.seq2seq.kind import PairRuns

if TYPE_CHECKING:
    from mixling.cli.evaluate_options import EvaluateOptions, Report, ReportOptions
    from mixling.cli.predict_options import PredictOptions
    from mixling.cli.train_options import TrainOptions
    from mixling.data.readers.rows import OnBadRow
    from mixling.research.seq2seq.config import PairRunConfig
    from mixling.research.seq2seq.metrics import TextMetrics
    from mixling.runs.run import Run
    from mixling.training.progress import TrainingProgress


class _PairCommands(KindCommands):
    def train(self, options: TrainOptions, started: Stopwatch) -> None:
        train_pairs(options, _values_of(options), started)

    def evaluate(self, model: str, options: EvaluateOptions, report: ReportOptions, *, bad: OnBadRow) -> Report:
        from mixling.research.seq2seq.evaluation import evaluate_files, evaluate_spans

        given = [*given_options(options), *given_options(report)]
        if not read_config(Path(model)).get("tasks"):  # pretrained by span corruption
            refuse_options(given, models="models of unlabeled text", allowed={"--text"})
            return hidden_tokens(evaluate_spans(model, options.files, text=(options.text or ["text"])[0]))
        pairs = {"--set", "--by", "--task-name", "--on-bad-row"}
        refuse_options(given, models="models that generate text", allowed=pairs)
        if len(names := options.sliced_by) > 1:
            raise ConfigError(f"--by: got {', '.join(names)}; models that generate text are measured by one column")
        set_columns = options.columns()
        group = names[0] if names else None
        columns = {"source": set_columns.get("source"), "target": set_columns.get("target"), "group": group}
        metrics, answers = evaluate_files(model, options.files, task=options.task_name, columns=columns, on_bad_row=bad)
        return metrics.summary(), {"skipped": bad.skipped, **metrics.to_dict(), "answers": answers}, None

    def predict(self, model: str, options: PredictOptions) -> None:
        generate = command_line("mixling", "generate", model, "INPUT")
        raise ConfigError(f"{model}: its model generates text: {generate}")


def _values_of(options: TrainOptions) -> dict[str, Any]:
    """Return the options in the layout of `PairRunConfig`.

    Raises:
        ConfigError: an option is given that text to text does not have.
    """
    if also := options.label_option():
        raise ConfigError(f"--{also}: does not apply to --task text2text; its columns are --source and --target")
    task = {
        "name": options.template,
        "train": options.files,
        "validation": options.validation,
        "template": options.template,
        "on_bad_row": options.on_bad_row,
        "columns": {"source": options.source, "target": options.target},
    }
    return {
        "pretrained": options.pretrained,
        "model": options.model,
        "train": options.training_values(),
        "tasks": [task],
    }


def train_pairs(options: TrainerOptions, values: Mapping[str, Any], started: Stopwatch) -> None:
    """Train a model that generates text, on pairs of texts or by span corruption.

    Args:
        values: the options as `resolve` takes them.
    """

    def check(config: PairRunConfig) -> None:
        if not config.tasks and config.corpus is None:
            raise ConfigError(f"no input; name at least one file: mixling {started.command} FILE -o DIR")

    check_run_folder(options.out, resume=options.resume, overwrite=options.overwrite)
    with interruptible(options.out):
        from mixling.research.seq2seq.config import PAIRS
        from mixling.research.seq2seq.run import fit_pairs

        with session(options, values, spec=PAIRS, kind=PairRuns.name, check=check) as opened:
            if opened is None:
                return
            terminal = opened.terminal
            terminal.metric = "exact_match" if opened.config.tasks else "perplexity"
            run = fit_pairs(opened.config, **opened.arguments)
    if run is not None:
        _report_pairs(run, terminal, started)


def _report_pairs(run: Run[dict[str, TextMetrics]], terminal: TrainingProgress, started: Stopwatch) -> None:
    for name, metrics in run.metrics.items():
        put(f"validation: {f'{name}: ' if len(run.metrics) > 1 else ''}{metrics.summary()}\n")
    following: list[tuple[str | Path, ...]] = [
        ("generate", run.folder, "a text"), ("evaluate", run.folder, "TEST_FILE"),
    ]  # fmt: skip
    if not run.metrics:
        held_out = run.report["held_out"]
        put(f"held-out: perplexity {held_out['perplexity']:.3f}, accuracy {held_out['accuracy']:.4f}\n")
        following = [("train", "PAIRS", "--task", "text2text", "--from", run.folder, "-o", "DIR")]
    rows = [("parameters", f"{run.parameters:,}"), ("time", started.elapsed()), *command_rows(following)]
    print_panel(terminal.console, str(run.folder), rows)
