"""`mixling evaluate`: how good a saved model is on labeled rows."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import typer

from mixling.cli.command import OUTPUT
from mixling.cli.options import LabeledColumns, ModelArgument, PairColumns, ThreadsOption
from mixling.cli.output import put
from mixling.errors import ConfigError

if TYPE_CHECKING:
    from mixling.data.readers.rows import OnBadRow

Report = tuple[str, dict[str, Any], Callable[[Path], None] | None]
"""What is printed, what is written beside the names of the model and of the files, and what draws the confusion."""


@dataclass(frozen=True, kw_only=True)
class EvaluateOptions(LabeledColumns, PairColumns):
    """What is measured, on which rows."""

    files: Annotated[list[str], typer.Argument(metavar="FILES...", help="Labeled rows, in any format of `train`.")]
    of: Annotated[
        str | None, typer.Option("--of", metavar="TASK", help="Text to text, of several tasks: whose rows they are.")
    ] = None
    on_bad_row: Annotated[
        str, typer.Option("--on-bad-row", metavar="error|skip", help="Stop at a bad row, or count it.")
    ] = "error"


@dataclass(frozen=True, kw_only=True)
class ReportOptions:
    """What becomes of the metrics."""

    panel: ClassVar[str] = OUTPUT
    out: Annotated[Path | None, typer.Option("-o", "--out", metavar="FILE.json", help="Write all measures there.")] = (
        None
    )
    confusion: Annotated[
        Path | None, typer.Option("--confusion", metavar="FILE.png", help="Draw the confusion matrix there.")
    ] = None
    bleu: Annotated[bool, typer.Option("--bleu", help="Text to text: measure sacreBLEU and chrF, too.")] = False
    threads: ThreadsOption = 1


def evaluate(model: ModelArgument, options: EvaluateOptions, report: ReportOptions) -> None:
    """Measure a saved model on labeled rows.

    A label that the model does not know is a bad row. Torch is not needed. Of a folder of `mixling pretrain` the
    perplexity on unlabeled text is measured, and of a model that writes text its answers, with torch.
    """
    from mixling.data.readers.rows import OnBadRow
    from mixling.runs.artifact import PRETRAINING, TEXT_TO_TEXT, kind_of_model, read_config
    from mixling.storage import write_json

    files = options.files
    if "-" in files:
        raise ConfigError("-: evaluate reads files, not standard input; write the rows to a file, such as rows.jsonl")
    bad = OnBadRow(options.on_bad_row)  # type: ignore[arg-type]
    kind = kind_of_model(model)
    if kind == PRETRAINING or (kind == TEXT_TO_TEXT and not read_config(Path(model)).get("tasks")):
        text, values, draw = _of_pretrained(model, options, masked=kind == PRETRAINING)
    elif kind == TEXT_TO_TEXT:
        text, values, draw = _of_answers(model, options, bleu=report.bleu, bad=bad)
    else:
        text, values, draw = _of_labels(model, options, report, bad=bad)
    put(text + "\n")
    if bad.skipped:
        print(f"{bad.skipped} bad rows were skipped; the first: " + "; ".join(bad.messages[:3]), file=sys.stderr)
    if report.out is not None:
        write_json(report.out, {"model": model, "files": files, **values})
    if report.confusion is not None and draw is not None:
        draw(report.confusion)


def _of_pretrained(model: str, options: EvaluateOptions, *, masked: bool) -> Report:
    from mixling.runs.pretrained import evaluate_text
    from mixling.seq2seq.evaluation import evaluate_spans

    found = (evaluate_text if masked else evaluate_spans)(model, options.files, text=options.text or "text")
    accuracy = f"accuracy {found['accuracy']:.4f} on hidden tokens"
    return f"perplexity {found['perplexity']:.3f}, {accuracy}, {found['tokens']:,.0f} tokens", found, None


def _of_answers(model: str, options: EvaluateOptions, *, bleu: bool, bad: OnBadRow) -> Report:
    from mixling.seq2seq.evaluation import metric_files

    columns = {"source": options.source, "target": options.target, "kind": options.kind}
    metrics, answers = metric_files(model, options.files, task=options.of, columns=columns, on_bad_row=bad, bleu=bleu)
    return metrics.summary(), {"skipped": bad.skipped, **metrics.to_dict(), "answers": answers}, None


def _of_labels(model: str, options: EvaluateOptions, report: ReportOptions, *, bad: OnBadRow) -> Report:
    from mixling.cli.folders import refuse_unfinished
    from mixling.data.examples import read_examples
    from mixling.metrics.base import ClassificationMetrics, format_table
    from mixling.runs.evaluation import columns_of, evaluate_files
    from mixling.runtime.predictor import Predictor

    refuse_unfinished(model)
    predictor = Predictor(model, num_threads=report.threads)
    if report.confusion is not None and not predictor.task.has_classes:
        raise ConfigError("--confusion: only texts with one label each have a confusion matrix")
    columns = columns_of(model, options.columns())
    examples = read_examples(options.files, reader=predictor.task.reader, columns=columns, on_bad_row=bad)
    metrics = evaluate_files(predictor, examples, on_bad_row=bad)

    def draw(path: Path) -> None:
        import numpy as np

        from mixling.export.plots import confusion_matrix

        assert isinstance(metrics, ClassificationMetrics)
        confusion_matrix(np.array(metrics.confusion), predictor.labels.names, path)

    return format_table(metrics), {"skipped": bad.skipped, **metrics.to_dict()}, draw
