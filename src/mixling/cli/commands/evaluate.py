"""`mixling evaluate`: the metrics of a saved model on labeled data."""

from __future__ import annotations

import sys
from dataclasses import asdict
from typing import TYPE_CHECKING

from mixling.cli.command import given_options
from mixling.cli.evaluate_options import EvaluateOptions, ReportOptions
from mixling.cli.mistakes import check_mistakes_file, write_mistakes
from mixling.cli.options import (
    ModelArgument,
    read_threshold,
    refuse_stdin,
)
from mixling.cli.output import put, wrapped
from mixling.errors import ConfigError

if TYPE_CHECKING:
    from mixling.cli.evaluate_options import Report
    from mixling.data.readers.rows import OnBadRow

_OF_PAIRS = {"--task-name"}
_AUTO = ("auto",)  # --by, for all columns
_STYLE = (
    "body { font: 15px/1.5 system-ui, sans-serif; margin: 1.5rem } td, th { padding: .1rem .6rem } "
    "table { display: block; overflow-x: auto } td { white-space: nowrap } "
    "h1 { font-size: 1.4rem; overflow-wrap: anywhere }"
)


def evaluate_command(model: ModelArgument, options: EvaluateOptions, report: ReportOptions) -> None:
    """Evaluate a saved model on labeled data.

    A label that the model does not know counts as an error. Torch is not needed, except for models that generate
    text, for models of images, and for models of `mixling pretrain`, whose perplexity on unlabeled text is computed.
    """
    from mixling.artifacts.artifact import kind_of_model
    from mixling.cli.kinds import commands_of
    from mixling.data.readers.rows import OnBadRow
    from mixling.storage import write_json

    files = options.files
    refuse_stdin("evaluate", files)
    bad = OnBadRow(options.on_bad_row)  # type: ignore[arg-type]
    if report.errors is not None:
        check_mistakes_file(report.errors)
    commands = commands_of(kind_of_model(model))
    is_page = report.out is not None and report.out.suffix.lower() == ".html"
    if is_page and commands is not None:
        raise ConfigError(f"--out: {report.out} is a page, which only models that predict labels have; name a .json")
    plots = [path for path in (report.confusion, report.reliability_plot) if path is not None]
    if plots:
        from mixling.export.figures import check_plot

        for path in plots:
            check_plot(path)
    evaluated = _evaluate_labels if commands is None else commands.evaluate
    text, values, metrics = evaluated(model, options, report, bad=bad)
    put(wrapped(text) + "\n")
    for line in bad.lines():
        print(line, file=sys.stderr)
    if report.out is not None and not is_page:
        write_json(report.out, {"model": model, "files": files, **values})
    if report.confusion is not None and metrics is not None:
        from mixling.export.plots import plot_confusion

        plot_confusion(metrics, report.confusion)


def _evaluate_labels(model: str, options: EvaluateOptions, report: ReportOptions, *, bad: OnBadRow) -> Report:
    from mixling.artifacts.seen_rows import SeenCounter, read_seen
    from mixling.cli.folders import refuse_unfinished
    from mixling.cli.kinds import refuse_options
    from mixling.data.examples import read_examples
    from mixling.metrics.base import ClassificationMetrics, ProbabilityMetrics, format_table
    from mixling.metrics.reliability import format_reliability
    from mixling.metrics.reports import MAX_TABLE_LABELS
    from mixling.metrics.robustness import noise_cells, noise_values
    from mixling.notebook import html_page
    from mixling.runs.evaluation import aim_as_trained, columns_of, evaluate, evaluate_out_of_scope
    from mixling.runs.slices import SlicedRows, slice_report
    from mixling.runtime.predictor import Predictor
    from mixling.samples.sets import shown_model
    from mixling.storage import write_atomic
    from mixling.tables import format_columns, terminal_width

    given = [*given_options(options), *given_options(report)]
    refuse_options(given, models="models that predict labels", allowed=set(given) - _OF_PAIRS)
    refuse_unfinished(model)
    noise = options.levels()
    predictor = Predictor(model, threshold=read_threshold(report.threshold), too_long=report.too_long)
    if report.confusion is not None and not predictor.task.has_classes:
        raise ConfigError("--confusion: a confusion matrix exists only for tasks with one label per text")
    if report.confusion is not None and len(predictor.task.labels) > MAX_TABLE_LABELS:
        got = f"the model has {len(predictor.task.labels):,} labels"
        raise ConfigError(f"--confusion: {got}; a picture of the confusion matrix has up to {MAX_TABLE_LABELS:,}")
    columns = columns_of(model, options.columns(), predictor.features)
    reader = predictor.task.reader
    sliced = None
    if names := options.sliced_by:
        aim_as_trained(predictor.task, model)
        sliced = SlicedRows(None if names == _AUTO else names, options.files, columns)
        reader = sliced.reader(reader)
    examples = read_examples(options.files, reader=reader, columns=columns, on_bad_row=bad)
    seen = None if (hashes := read_seen(model)) is None else SeenCounter(hashes)
    examples = examples if seen is None else seen.watch(examples)
    examples = examples if sliced is None else sliced.watch(examples)
    kept = list(examples) if report.errors is not None or sliced is not None else None
    evaluation = evaluate(predictor, examples if kept is None else kept, noise=noise, keep=kept is not None)
    metrics = evaluation.metrics
    text = format_table(metrics, terminal_width())
    if evaluation.unseen:
        print(evaluation.unseen, file=sys.stderr)
    values = {"skipped": bad.skipped, **metrics.to_dict()}
    if seen is not None:
        text = f"{seen.line()}\n{text}".lstrip()
        values["trained_on"] = seen.seen
    tables = [metrics._repr_html_()]
    if sliced is not None and kept is not None:
        slices = slice_report(predictor.task, kept, evaluation.predictions, sliced, profile=predictor.metadata.profile)
        text += "\n\n" + slices.table(terminal_width())
        values["slices"] = slices.to_dict()
        tables.append(slices._repr_html_())
    if report.out is not None and report.out.suffix.lower() == ".html":
        write_atomic(
            report.out,
            html_page(f"{shown_model(model)} on {', '.join(options.files)}", "\n".join(tables), _STYLE).encode(),
        )
    if report.reliability or report.reliability_plot is not None:
        if not isinstance(metrics, ProbabilityMetrics):
            raise ConfigError(f"--reliability: predictions of {predictor.task.name} have no probabilities")
        if report.reliability_plot is not None:
            from mixling.export.plots import reliability_diagram

            reliability_diagram(metrics.reliability, report.reliability_plot)
    if report.reliability:
        assert isinstance(metrics, ProbabilityMetrics)
        text += "\n\n" + format_reliability(metrics.reliability)
    if noise:
        name = predictor.task.headline.replace("_", " ")
        clean = {name: metrics.numbers()[predictor.task.headline]}
        text += "\n\n" + format_columns(noise_cells(clean, {name: evaluation.robustness}))
        values["noise"] = noise_values(evaluation.robustness)
    if report.out_of_scope:
        outside = evaluate_out_of_scope(predictor, report.out_of_scope, evaluation.confidence, columns=columns)
        text = f"{text}\n\n{outside.summary()}"
        values["out_of_scope"] = asdict(outside)
    if report.errors is not None and kept is not None:
        write_mistakes(model, predictor, kept, evaluation.predictions, report.errors)
    return text, values, metrics if isinstance(metrics, ClassificationMetrics) else None
