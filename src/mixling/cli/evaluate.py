"""`mixling evaluate`: how good a saved model is on labelled rows."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from mixling.cli.options import (
    KindOption,
    LabelOption,
    ModelArgument,
    SlotsOption,
    SourceOption,
    TargetOption,
    TextOption,
    TextPairOption,
    ThreadsOption,
    TokensOption,
)
from mixling.cli.output import put
from mixling.errors import ConfigError, DataError

if TYPE_CHECKING:
    from mixling.data.examples import Example
    from mixling.data.rows import OnBadRow
    from mixling.metrics.base import Metrics
    from mixling.runtime.predictor import Predictor


def evaluate(
    model: ModelArgument,
    files: Annotated[list[str], typer.Argument(metavar="FILES...", help="Labelled rows, in any format of `train`.")],
    out: Annotated[
        Path | None, typer.Option("-o", "--out", metavar="FILE.json", help="Write all measures there.")
    ] = None,
    confusion: Annotated[
        Path | None, typer.Option("--confusion", metavar="FILE.png", help="Draw the confusion matrix there.")
    ] = None,
    text: TextOption = None,
    text_pair: TextPairOption = None,
    label: LabelOption = None,
    tokens: TokensOption = None,
    slots: SlotsOption = None,
    source: SourceOption = None,
    target: TargetOption = None,
    kind: KindOption = None,
    of: Annotated[
        str | None, typer.Option("--of", metavar="TASK", help="Text to text, of several tasks: whose rows they are.")
    ] = None,
    bleu: Annotated[bool, typer.Option("--bleu", help="Text to text: measure sacreBLEU and chrF, too.")] = False,
    on_bad_row: Annotated[
        str, typer.Option("--on-bad-row", metavar="error|skip", help="Stop at a bad row, or count it.")
    ] = "error",
    threads: ThreadsOption = 1,
) -> None:
    """Measure a saved model on labelled rows.

    A label that the model does not know is a bad row. Torch is not needed. Of a folder of `mixling pretrain` the
    perplexity on unlabelled text is measured, and of a model that writes text its answers, with torch.
    """
    from mixling.cli.folders import refuse_unfinished
    from mixling.cli.rows import columns_for
    from mixling.cli.show import is_pretraining, reads_text
    from mixling.cli.text_to_text import measure_written, writes_text
    from mixling.data.examples import read_examples
    from mixling.data.rows import OnBadRow
    from mixling.metrics.base import ClassificationMetrics, format_table
    from mixling.runtime.predictor import Predictor
    from mixling.storage import write_json

    if "-" in files:
        raise ConfigError("-: evaluate reads files, not standard input; write the rows to a file, such as rows.jsonl")
    if reads_text(model):
        from mixling.runs.pretrained import evaluate_text
        from mixling.runs.written import evaluate_spans

        perplexity_of = evaluate_text if is_pretraining(model) else evaluate_spans
        measures = perplexity_of(model, files, text=text or "text")
        put(f"perplexity {measures['perplexity']:.3f}, accuracy {measures['accuracy']:.4f} on hidden tokens, ")
        put(f"{measures['tokens']:,.0f} tokens\n")
        if out is not None:
            write_json(out, {"model": model, "files": files, **measures})
        return
    if writes_text(model):
        bad = OnBadRow(cast(Any, on_bad_row))
        report, answers = measure_written(
            model, files, of=of, given={"source": source, "target": target, "kind": kind}, on_bad_row=bad, bleu=bleu
        )
        put(report.summary() + "\n")
        if bad.skipped:
            print(f"{bad.skipped} bad rows were skipped; the first: " + "; ".join(bad.messages[:3]), file=sys.stderr)
        if out is not None:
            write_json(
                out, {"model": model, "files": files, "skipped": bad.skipped, **report.to_dict(), "answers": answers}
            )
        return
    refuse_unfinished(model)
    predictor = Predictor(model, num_threads=threads)
    if confusion is not None and not predictor.task.has_classes:
        raise ConfigError("--confusion: only texts with one label each have a confusion matrix")
    given = {"text": text, "text_pair": text_pair, "label": label, "tokens": tokens, "slots": slots}
    bad = OnBadRow(cast(Any, on_bad_row))
    examples = read_examples(files, reader=predictor.task.reader, columns=columns_for(model, given), on_bad_row=bad)
    metrics = measure(predictor, examples, on_bad_row=bad)
    put(format_table(metrics) + "\n")
    if bad.skipped:
        print(f"{bad.skipped} bad rows were skipped; the first: " + "; ".join(bad.messages[:3]), file=sys.stderr)
    if out is not None:
        write_json(out, {"model": model, "files": files, "skipped": bad.skipped, **metrics.to_dict()})
    if confusion is not None:
        import numpy as np

        from mixling.inspect.plots import confusion_matrix

        assert isinstance(metrics, ClassificationMetrics)
        confusion_matrix(np.array(metrics.confusion), predictor.labels.names, confusion)


def measure(predictor: Predictor, examples: Iterator[Example], *, on_bad_row: OnBadRow) -> Metrics:
    """The metrics of a model on examples, which are read in windows.

    Raises:
        DataError: a label that the model does not know, unless `on_bad_row` skips it; no example is left.
    """
    from mixling.cli.rows import WINDOW

    outputs: list[Any] = []
    targets: list[Any] = []
    known = (example for example in examples if _is_known(predictor, example, on_bad_row))
    task = predictor.task
    while window := list(itertools.islice(known, WINDOW)):
        if task.windows:
            outputs += [item.answer.text for item in predictor.predict_stream(e.text for e in window) if item.answer]
            targets += [example.answers for example in window]
            continue
        outputs += predictor.logits(predictor.encode([example.text for example in window]))
        targets += [example.target for example in window]
    if not targets:
        raise DataError(f"no row is left to measure on, {on_bad_row.skipped} were skipped: {on_bad_row.messages[0]}")
    return task.evaluate(outputs, targets if task.windows else task.targets(targets))


def _is_known(predictor: Predictor, example: Example, on_bad_row: OnBadRow) -> bool:
    if example.answers is not None:
        return True
    try:
        predictor.task.targets([example.target])
    except DataError as error:
        on_bad_row(DataError(f"{error}; the model never saw it", path=example.path, line=example.line))
        return False
    return True
