"""How good a model is on rows that nothing was trained or chosen on, where it is wrong, and what helps."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mixling.cli.output import put, wrapped
from mixling.errors import printable

if TYPE_CHECKING:
    from mixling.comparison.benchmark import TrainedSystem
    from mixling.comparison.failures import Failure
    from mixling.data.dataset import Dataset
    from mixling.data.examples import Example, Target
    from mixling.metrics.base import Metrics
    from mixling.runs.resolve.config import RunConfig
    from mixling.runs.run import Run
    from mixling.runtime.predictor import Predictor
    from mixling.tasks.base import Task
    from mixling.text.encoder import Text

# mistakes and suspicious labels; characters of a text
_SHOWN = 3
_WIDTH = 74
_MOST_FOLDED = 10_000  # rows in which suspicious labels are searched
STRENGTH = 10.0  # of logistic regressions, the inverse of the regularization
_FEW_ROWS = 300
_FEW_OF_LABEL = 10
_UNKNOWN = 0.15  # share of words that no training text has
_CARD_BEFORE = "## Results\n"  # the section of the card that the test's stands before
_CERTAIN = 0.5  # probability of another label, from which a given one looks wrong
_CONFUSED = 5  # mistakes between the same two labels


def has_color() -> bool:
    """Return whether standard output shows colors."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


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
    from mixling.data.row_writer import json_rows
    from mixling.data.splits import report_duplicates
    from mixling.runs.evaluation import evaluate
    from mixling.runtime.predictor import Predictor
    from mixling.runtime.quick import ONNX_FILE
    from mixling.storage import atomic_file, write_atomic, write_sealed

    predictor = Predictor(run.folder)
    task = predictor.task
    if not config.data.test:
        with atomic_file(run.folder / TEST_FILE) as file:
            for line in json_rows(test, config.data.columns, of_words=task.per_word):
                file.write(line.encode())
    evaluation = evaluate(predictor, test)
    known = report_duplicates(train, test) + report_duplicates(validation, test)
    about = ", which nothing was trained or chosen on"
    if known:
        about = f"; {known:,} of them have texts that were trained or chosen on: too good for new text"
    found: dict[str, Any] = {"rows": len(test), "trained_on": known, **evaluation.metrics.numbers()}
    lines = [f"test: {evaluation.metrics.summary()}"]
    if not task.windows:
        answers = list(predictor.predict_stream(test.texts))
        given = [task.answer(answer, text) for answer, text in zip(answers, test.texts, strict=True)]
        size = (run.folder / ONNX_FILE).stat().st_size
        results = [SystemAnswers("mixling", given, f"{size / 1e6:.2f} MB")]
        if reference is not None and not isinstance(reference, Failure):
            given_by = reference.answerers[0].predict(list(test.texts))
            results.append(SystemAnswers(reference.name, given_by, f"{reference.file_bytes / 1e6:.2f} MB"))
        results.append(majority_answers(task, train.targets, list(test.texts)))
        scores, found["systems"] = score_lines(predictor, list(test.targets), results, bold=has_color())
        sections = [[f"{headline_name(task)} on {len(test):,} test rows{about}", *scores]]
        if not task.per_word:
            sections.append(list(mistake_lines(predictor, list(test), answers)))
        if task.exclusive and task.has_labels and not task.per_word and not train.schema.pairs:
            sections.append(list(suspicious_lines([*train, *validation])))
        behind = not_better(found["systems"], task)
        advice = [*behind, *advice_lines(predictor, list(train), list(test), given)]
        sections.append(["what may help", *(f"  {line}" for line in advice)] if advice else [])
        lines += ["\n" + "\n".join(section) for section in sections if section]
    put(wrapped("\n".join(lines)) + "\n", styled=has_color())
    write_sealed(run.folder / METRICS_FILE, {**read_metrics(run.folder), "test": found})
    card = (run.folder / CARD_FILE).read_text("utf-8")
    write_atomic(
        run.folder / CARD_FILE, card.replace(_CARD_BEFORE, _card_section(found, task, about) + _CARD_BEFORE, 1)
    )


def not_better(systems: Mapping[str, Mapping[str, Any]], task: Task) -> list[str]:
    """Return a line if another system is as good as the model, which is the first."""
    (_, ours), *others = systems.items()
    sign = -1 if not task.has_labels else 1  # numbers are judged by their errors
    better = [name for name, values in others if sign * values[task.headline] >= sign * ours[task.headline]]
    if not better:
        return []
    return [f"not better than {better[-1]} here: `mixling compare` shows whether that is chance"]


def headline_name(task: Task) -> str:
    """Return the name of a task's headline metric for a reader."""
    return task.headline.replace("_", " ")


def _card_section(found: Mapping[str, Any], task: Task, about: str) -> str:
    """Return the section of a model card with the figures of a test."""
    heading = f"## Test\n\nOn {found['rows']:,} rows{about}"
    if "systems" not in found:
        return f"{heading}: {task.metric.replace('_', ' ')} {found[task.metric]:.4f}.\n\n"
    rows = []
    for name, values in found["systems"].items():
        low, high = values.get("interval", (None, None))
        interval = "" if low is None else f"{low:.4f} to {high:.4f}"
        rows.append(f"| {name} | {values[task.headline]:.4f} | {interval} |")
    table = "\n".join([f"| system | {headline_name(task)} | 95% interval |", "| :-- | --: | :-- |", *rows])
    return f"{heading}:\n\n{table}\n\n"


def score_lines(
    predictor: Predictor, targets: Sequence[Target], results: Sequence[SystemAnswers], *, bold: bool = False
) -> tuple[list[str], dict[str, dict[str, Any]]]:
    """Return a line for each result, with its headline metric and 95% interval, and these as values by name.

    Args:
        bold: print the number of the first result in bold.
    """
    from mixling.metrics.intervals import rate_interval

    lines = []
    values = {}
    width = max(len(result.name) for result in results)
    for number, result in enumerate(results):
        score = predictor.task.score(targets, result.answers)
        value = score.numbers[predictor.task.headline]
        shown = f"{value:.3f}"
        found: dict[str, Any] = {predictor.task.headline: value}
        if predictor.task.has_labels:
            interval = rate_interval(score.hits, score.sizes)
            shown += f" [{interval.low:.3f}, {interval.high:.3f}]"
            found["interval"] = [interval.low, interval.high]
        values[result.name] = found
        shown = f"\033[1m{shown}\033[0m" if bold and not number else shown
        lines.append(f"  {result.name:<{width}}  {shown}  {result.about}".rstrip())
    return lines, values


def majority_answers(task: Task, train: Sequence[Target], texts: Sequence[Text]) -> SystemAnswers:
    """Return the most frequent target, or the median, as the answer to all test rows."""
    constant = task.constant(train)
    answers = [constant(text) for text in texts]
    name = "majority" if task.has_labels else "median"
    return SystemAnswers(name, answers, f"always {_written(answers[0])}" if answers and not task.per_word else "")


def mistake_lines(predictor: Predictor, examples: Sequence[Example], answers: Sequence[Any]) -> Iterator[str]:
    """Yield the mistakes that the model is most certain of, with the words that it answers by.

    Args:
        answers: the predictions for the examples.
    """
    from mixling.audit.mistakes import find_mistakes
    from mixling.explain.render import explanation_lines

    found = find_mistakes(predictor, examples, answers, most=_SHOWN)
    if not found:
        return
    color = has_color()
    yield "most confident mistakes" + (" (red: words for the answer)" if color else "")
    for mistake in found:
        was, answer = (printable(_written(value)) for value in (mistake.example.target, mistake.answer))
        certainty = f" ({mistake.severity:.0%})" if predictor.task.has_labels else ""
        words = ", ".join(printable(word.word) for word in mistake.explanation.top(3) if word.effect > 0)
        by = "" if color or not words else f", by: {words}"
        yield f"  {mistake.example.path}:{mistake.example.line}: is {was}, answered {answer}{certainty}{by}"
        explained = explanation_lines(mistake.explanation, color=True)[1] if color else None
        yield f"    {explained or shortened(mistake.example.text)}"


def suspicious_lines(rows: Sequence[Example]) -> Iterator[str]:
    """Yield the labels that a linear model, trained on the other rows, finds the least probable."""
    import numpy as np
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import cross_val_predict

    from mixling.audit.label_errors import likely_errors, self_confidence
    from mixling.comparison.baselines import TfidfFeatures
    from mixling.errors import DataError

    counts = Counter(str(row.target) for row in rows)
    if len(counts) < 2 or min(counts.values()) < 3 or len(rows) > _MOST_FOLDED:
        return
    learned = {name for name, count in counts.items() if count >= _FEW_OF_LABEL}
    names, given = np.unique([str(row.target) for row in rows], return_inverse=True)
    try:
        features = TfidfFeatures("word").fit_transform([row.text for row in rows])
    except DataError:  # no text has a word
        return
    model = LogisticRegression(C=STRENGTH, tol=1e-3, max_iter=500)
    probabilities = cross_val_predict(model, features, given, cv=3, method="predict_proba")
    is_certain = probabilities.max(1) >= _CERTAIN
    found = np.flatnonzero(likely_errors(given, probabilities) & is_certain & np.isin(names[given], [*learned]))
    if not len(found):
        return
    yield "labels that look wrong (`mixling audit` finds more)"
    for index in found[np.argsort(self_confidence(given, probabilities)[found])][:_SHOWN].tolist():
        row = rows[index]
        better = printable(str(names[probabilities[index].argmax()]))
        yield f"  {row.path}:{row.line}: is {printable(str(row.target))}, rather {better}"
        yield f"    {shortened(row.text)}"


def advice_lines(
    predictor: Predictor, train: Sequence[Example], test: Sequence[Example], answers: Sequence[Target]
) -> Iterator[str]:
    """Yield what helps, by what the rows and the mistakes show."""
    from mixling.text.words import split_words

    counts = Counter(label for row in train for label in _labels(row.target))
    if len(train) < _FEW_ROWS:
        yield f"more rows help most: {len(train):,} are few (`mixling suggest` chooses which texts to label next)"
    if rare := [name for name, count in counts.items() if count < _FEW_OF_LABEL]:
        which = ", ".join(printable(name) for name in sorted(rare, key=lambda name: counts[name])[:_SHOWN])
        more = f" and {len(rare) - _SHOWN} more" if len(rare) > _SHOWN else ""
        yield f"labels with fewer than {_FEW_OF_LABEL} rows are hardly learned: {which}{more}"
    pairs = Counter(
        tuple(sorted((row.target, answer)))
        for row, answer in zip(test, answers, strict=True)
        if isinstance(row.target, str) and isinstance(answer, str) and answer != row.target
    )
    for (one, other), count in pairs.most_common(1):
        if count >= _CONFUSED and len(counts) > 2:
            both = f"{printable(one)} and {printable(other)}"
            yield f"{both} are confused most ({count} times): see whether their rows are labeled alike"
    if not predictor.task.per_word:
        known = {word.lower() for row in train for word in split_words(_joined(row.text))}
        words = [word.lower() for row in test for word in split_words(_joined(row.text)) if word.isalpha()]
        unknown = sum(word not in known for word in words) / max(len(words), 1)
        if unknown > _UNKNOWN:
            yield f"{unknown:.0%} of the words of the test texts are in no training text: --unlabeled FILE teaches more"


def shortened(text: Any) -> str:
    """Return the beginning of a text on one line."""
    line = printable(" ".join(_joined(text).split()))
    return line if len(line) <= _WIDTH else line[: _WIDTH - 3] + "..."


def _joined(text: Any) -> str:
    return text if isinstance(text, str) else (" | " if isinstance(text, tuple) else " ").join(text)


def _labels(target: Target) -> tuple[str, ...]:
    from mixling.data.examples import names_of

    return tuple(name for name in names_of(target) if name != "O")


def _written(value: Any) -> str:
    if isinstance(value, tuple):
        return ", ".join(value) or "none"
    return f"{value:g}" if isinstance(value, float) else str(value)


def baseline_line(reference: TrainedSystem | Failure, task: type[Task]) -> str:
    """Return a line on the baseline with its metric on validation, by which its options were chosen."""
    from mixling.comparison.failures import Failure

    if isinstance(reference, Failure):
        return f"{reference.name} failed: {reference.reason}"
    (value,), (seconds,), metric = reference.validation, reference.seconds, task.metric.replace("_", " ")
    size = f"{reference.file_bytes / 1e6:.2f} MB, {seconds:.0f} s"
    return f"{reference.name} has {metric} {value:.4f} on validation ({size})"
