"""How good a model is on rows that nothing was trained or chosen on, beside others."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mixling.cli.findings import (
    MOST_FOLDED,
    advice_lines,
    answer_mistakes,
    has_color,
    mistake_lines,
    not_better,
    suspicious_lines,
    written,
)
from mixling.cli.output import put, wrapped

if TYPE_CHECKING:
    from mixling.comparison.benchmark import TrainedSystem
    from mixling.comparison.failures import Failure
    from mixling.data.dataset import Dataset
    from mixling.data.examples import Target
    from mixling.metrics.base import Metrics
    from mixling.runs.resolve.config import RunConfig
    from mixling.runs.run import Run
    from mixling.tasks.base import Task
    from mixling.text.encoder import Text

_MOST_READ = 100_000  # training rows that advice is given by
_NEAR = 0.01  # of the test texts nearly equal training texts
_CARD_BEFORE = "## Results\n"  # the section of the card that the test's stands before


@dataclass(frozen=True)
class SystemAnswers:
    """The answers of a system to the test rows.

    Attributes:
        about: what it is, for the end of its line.
    """

    name: str
    answers: Sequence[Target]
    about: str


def report_test(
    run: Run[Metrics],
    config: RunConfig,
    *,
    train: Dataset,
    validation: Dataset,
    test: Dataset,
    reference: TrainedSystem | Failure | None,
) -> None:
    """Print how good the model of a run is on the test rows, and what they show; keep the rows and the figures.

    The rows are written to `test.jsonl` in the folder of the run, unless they are of files; the figures to
    `metrics.json`. `mixling evaluate` gives the same figures.

    Args:
        reference: a fitted baseline, or why there is none.
    """
    from mixling.artifacts.files import CARD_FILE, METRICS_FILE, TEST_FILE, read_metrics
    from mixling.comparison.failures import Failure
    from mixling.data.near_duplicates import JACCARD, count_near_duplicates
    from mixling.data.row_writer import json_rows
    from mixling.data.splits import report_duplicates
    from mixling.metrics.base import metric_title
    from mixling.runs.evaluation import aimed_task, evaluate
    from mixling.runtime.predictor import Predictor
    from mixling.runtime.quick import ONNX_FILE
    from mixling.storage import atomic_file, write_atomic, write_sealed

    predictor = Predictor(run.folder)
    task = predictor.task
    if not config.data.test:
        with atomic_file(run.folder / TEST_FILE) as file:
            for line in json_rows(test, config.data.columns, of_words=task.per_word):
                file.write(line.encode())
    evaluation = evaluate(predictor, test, keep=True)
    known = report_duplicates(train, test) + report_duplicates(validation, test)
    about = ", which nothing was trained or chosen on"
    if known:
        about = f"; {known:,} of them have texts that were trained or chosen on: too good for new text"
    found: dict[str, Any] = {"rows": len(test), "trained_on": known, **evaluation.metrics.numbers()}
    lines = [f"test: {evaluation.metrics.summary()}"]
    answers = evaluation.predictions
    given = [task.answer(answer, text) for answer, text in zip(answers, test.texts, strict=True)]
    size = (run.folder / ONNX_FILE).stat().st_size
    results = [SystemAnswers("mixling", given, f"{size / 1e6:.2f} MB")]
    if reference is not None and not isinstance(reference, Failure):
        given_by = reference.answerers[0].predict(list(test.texts))
        results.append(SystemAnswers(reference.name, given_by, f"{reference.file_bytes / 1e6:.2f} MB"))
    results.append(majority_answers(task, train.targets, list(test.texts)))
    aimed = aimed_task(config, train)
    right: list[Any] = [row.answers if task.windows else row.target for row in test]
    scores, found["systems"] = score_lines(aimed, right, results, bold=has_color())
    sections = [
        [f"{metric_title(metric)} on {f'{len(test):,} test rows{about}' if not number else 'the same rows'}", *rows]
        for number, (metric, rows) in enumerate(scores.items())
    ]
    if not task.per_word:
        mistakes = (
            answer_mistakes(list(test), answers) if task.windows else mistake_lines(predictor, list(test), answers)
        )
        sections.append(list(mistakes))
    single = task.exclusive and task.has_labels and not task.per_word and not train.schema.pairs
    if single:
        few = len(train) + len(validation) <= MOST_FOLDED
        sections.append(list(suspicious_lines([*train, *validation])) if few else [])
    some = list(itertools.islice(train, _MOST_READ))
    advice = [
        *not_better(found["systems"], aimed),
        *advice_lines(predictor, some, list(test), given, unlabeled=config.init.has_texts),
    ]
    near = count_near_duplicates(train, test, seed=config.train.seed)
    if near.count > _NEAR * near.looked_at:
        which = f"{near.count:,} of {near.looked_at:,} test texts nearly equal a training text"
        advice.append(
            f"{which}, so new texts will be harder: `mixling dedup FILE --threshold {JACCARD}` keeps one of each"
        )
    sections.append(["what may help", *(f"  {line}" for line in advice)] if advice else [])
    lines += ["\n" + "\n".join(section) for section in sections if section]
    put(wrapped("\n".join(lines)) + "\n", styled=has_color())
    write_sealed(run.folder / METRICS_FILE, {**read_metrics(run.folder), "test": found})
    card = (run.folder / CARD_FILE).read_text("utf-8")
    write_atomic(run.folder / CARD_FILE, card.replace(_CARD_BEFORE, _card_section(found, about) + _CARD_BEFORE, 1))


def _card_section(found: Mapping[str, Any], about: str) -> str:
    """Return the section of a model card with the figures of a test."""
    heading = f"## Test\n\nOn {found['rows']:,} rows{about}"
    from mixling.metrics.base import metric_title

    rows = []
    metrics = [name for name in next(iter(found["systems"].values())) if name != "intervals"]
    for name, values in found["systems"].items():
        shown = (
            "-" if values[metric] is None or low is None else f"{values[metric]:.4f} ({low:.4f} to {high:.4f})"
            for metric, (low, high) in values["intervals"].items()
        )
        rows.append(f"| {name} | {' | '.join(shown)} |")
    titles = " | ".join(f"{metric_title(metric)} (95% interval)" for metric in metrics)
    table = "\n".join([f"| system | {titles} |", f"| :-- |{' --: |' * len(metrics)}", *rows])
    return f"{heading}:\n\n{table}\n\n"


def score_lines(
    task: Task, targets: Sequence[Target], results: Sequence[SystemAnswers], *, bold: bool = False
) -> tuple[dict[str, list[str]], dict[str, dict[str, Any]]]:
    """Return a line for each result by metric, the headline first, and all values with their 95% intervals by name.

    Args:
        bold: print the first number in bold.
    """
    from mixling.metrics.intervals import interval_of

    kind = type(task)
    metrics = dict.fromkeys((task.headline, kind.headline, *kind.aside[: kind.per_word or kind.windows]))
    lines: dict[str, list[str]] = {metric: [] for metric in metrics}
    values = {}
    width = max(len(result.name) for result in results)
    for number, result in enumerate(results):
        score = task.score(targets, result.answers)
        intervals = {metric: interval_of([score], kind.headline, metric) for metric in metrics}
        for metric, interval in intervals.items():
            shown = _number(score.numbers[metric])
            if bold and not number and metric == task.headline:
                shown = f"\033[1m{shown}\033[0m"
            shown += f" [{_number(interval.low)}, {_number(interval.high)}]"
            lines[metric].append(f"  {result.name:<{width}}  {shown}  {result.about}".rstrip())
        values[result.name] = {
            **{metric: _defined(score.numbers[metric]) for metric in metrics},
            "intervals": {metric: [_defined(one.low), _defined(one.high)] for metric, one in intervals.items()},
        }
    return lines, values


def _number(value: float) -> str:
    if math.isnan(value):
        return "-"
    return f"{value:.3f}" if abs(value) < 100 else f"{value:,.1f}"


def _defined(value: float) -> float | None:
    return None if math.isnan(value) else value


def majority_answers(task: Task, train: Sequence[Target], texts: Sequence[Text]) -> SystemAnswers:
    """Return the most frequent target, or the median, as the answer to all test rows."""
    constant = task.constant(train)
    answers = [constant(text) for text in texts]
    name = "majority" if task.has_labels or task.windows else "median"
    return SystemAnswers(name, answers, f"always {written(answers[0])}" if answers and not task.per_word else "")


def baseline_line(reference: TrainedSystem | Failure, task: type[Task]) -> str:
    """Return a line on the baseline with its metric on validation, by which its options were chosen."""
    from mixling.comparison.failures import Failure

    if isinstance(reference, Failure):
        return f"{reference.name} failed: {reference.reason}"
    (value,) = reference.validation
    (seconds,) = reference.seconds
    metric = task.metric.replace("_", " ")
    size = f"{reference.file_bytes / 1e6:.2f} MB, {seconds:.0f} s"
    return f"{reference.name} has {metric} {value:.4f} on validation ({size})"
