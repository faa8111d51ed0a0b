"""What rows show that nothing was trained on: mistakes, labels that look wrong, and what may help."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from mixling.errors import printable

if TYPE_CHECKING:
    from mixling.arrays import Float64, Int64
    from mixling.data.examples import Example, Target
    from mixling.native.sparse import SparseRows
    from mixling.runtime.predictor import Predictor
    from mixling.tasks.base import Task

# mistakes and suspicious labels; characters of a text
_SHOWN = 3
_WIDTH = 74
MOST_FOLDED = 10_000  # rows in which suspicious labels are searched
STRENGTH = 10.0  # of logistic regressions, the inverse of the regularization
_FEW_ROWS = 300
_FEW_OF_LABEL = 10
_UNKNOWN = 0.15  # share of words that no training text has
_FOLDS = 3
_CERTAIN = 0.5  # probability of another label, from which a given one looks wrong
_CONFUSED = 5  # mistakes between the same two labels


def has_color() -> bool:
    """Return whether standard output shows colors."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def not_better(systems: Mapping[str, Mapping[str, Any]], task: Task) -> list[str]:
    """Return a line if another system is as good as the model, which is the first."""
    from mixling.metrics.base import LESS_IS_BETTER

    sign = -1 if task.headline in LESS_IS_BETTER else 1
    known = {
        name: sign * values[task.headline] for name, values in systems.items() if values[task.headline] is not None
    }
    ours = next(iter(systems))
    others = [name for name in known if name != ours]
    name = max(others, key=known.__getitem__, default="")
    if ours not in known or not name or known[name] < known[ours]:
        return []
    return [f"not better than {name} here" + ": `mixling compare` shows whether that is chance" * bool(task.baselines)]


def mistake_lines(predictor: Predictor, examples: Sequence[Example], answers: Sequence[Any]) -> Iterator[str]:
    """Yield the mistakes that the model is most certain of, with the words that it answers by.

    Args:
        answers: the predictions for the examples.
    """
    from mixling.audit.mistakes import find_mistakes
    from mixling.explain.explanation import explanation_lines

    found = find_mistakes(predictor, examples, answers, most=_SHOWN)
    if not found:
        return
    color = has_color()
    title = "most confident mistakes" if predictor.task.has_labels else "largest errors"
    yield title + (" (blue: words for the answer)" if color else "")
    for mistake in found:
        was, answer = (printable(written(value)) for value in (mistake.example.target, mistake.answer))
        certainty = f" ({mistake.severity:.0%})" if predictor.task.has_labels else ""
        words = ", ".join(printable(word.word) for word in mistake.explanation.top(3) if word.effect > 0)
        by = "" if color or not words else f", by: {words}"
        yield f"  {mistake.example.path}:{mistake.example.line}: is {was}, answered {answer}{certainty}{by}"
        explained = explanation_lines(mistake.explanation, color=True)[1] if color else None
        yield f"    {explained or shortened(mistake.example.text)}"


def answer_mistakes(examples: Sequence[Example], answers: Sequence[Any]) -> Iterator[str]:
    """Yield the wrong answers to questions that the model is most certain of.

    Args:
        answers: the predictions for the examples.
    """
    from mixling.metrics.squad import score_answer

    wrong = [
        (found.answer, example)
        for found, example in zip(answers, examples, strict=True)
        if example.answers is not None and not score_answer(found.answer.text, example.answers)[0]
    ]
    if wrong:
        yield "most confident mistakes"
    for answer, example in sorted(wrong, key=lambda one: -one[0].score)[:_SHOWN]:
        assert example.answers is not None
        right = shortened(next(iter(example.answers.texts), "") or "no answer")
        got = shortened(answer.text) or "no answer"
        yield f"  {example.path}:{example.line}: is {right}, answered {got} ({answer.score:.0%})"
        yield f"    {shortened(example.text[0])}"


def suspicious_lines(rows: Sequence[Example]) -> Iterator[str]:
    """Yield the labels that a linear model, trained on the other rows, finds the least probable."""
    import numpy as np

    from mixling.audit.label_errors import likely_errors, self_confidence
    from mixling.comparison.tfidf_features import TfidfFeatures
    from mixling.errors import DataError

    counts = Counter(str(row.target) for row in rows)
    if len(counts) < 2 or min(counts.values()) < 3:
        return
    learned = {name for name, count in counts.items() if count >= _FEW_OF_LABEL}
    names, given = np.unique([str(row.target) for row in rows], return_inverse=True)
    try:
        features = TfidfFeatures("word").fit_transform([row.text for row in rows])
    except DataError:  # no text has a word
        return
    probabilities = _out_of_fold(features, given, len(names))
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


def _out_of_fold(features: SparseRows, given: Int64, number: int) -> Float64:
    """Return the probabilities (n, C) of rows by logistic regressions on the others; each label is in all folds."""
    import numpy as np

    from mixling.native.regressions import fit_logistic

    order = np.argsort(given, kind="stable")
    fold = np.empty(len(given), np.int64)
    fold[order] = np.arange(len(given)) % _FOLDS
    out = np.empty((len(given), number))
    for one in range(_FOLDS):
        rest = np.flatnonzero(fold != one)
        weights, bias = fit_logistic(features.rows(rest), given[rest], number, STRENGTH)
        scores = (features.rows(np.flatnonzero(fold == one)) @ np.ascontiguousarray(weights.T)) + bias
        scores = np.concatenate([np.zeros_like(scores), scores], axis=1) if number == 2 else scores
        odds = np.exp(scores - scores.max(1, keepdims=True))
        out[fold == one] = odds / odds.sum(1, keepdims=True)
    return out


def advice_lines(
    predictor: Predictor,
    train: Sequence[Example],
    test: Sequence[Example],
    answers: Sequence[Target],
    *,
    unlabeled: bool,
) -> Iterator[str]:
    """Yield what helps, by what the rows and the mistakes show.

    Args:
        unlabeled: whether the model has read texts without labels.
    """
    from mixling.text.words import split_words

    counts = Counter(label for row in train if row.target is not None for label in _labels(row.target))
    if len(train) < _FEW_ROWS:
        which = "" if predictor.task.windows else " (`mixling suggest` chooses which texts to label next)"
        yield f"more rows help most: {len(train):,} are few{which}"
    if rare := [name for name, count in counts.items() if count < _FEW_OF_LABEL]:
        which = ", ".join(printable(name) for name in sorted(rare, key=lambda name: counts[name])[:_SHOWN])
        more = f" and {len(rare) - _SHOWN} more" if len(rare) > _SHOWN else ""
        yield f"{len(rare):,} of {len(counts):,} labels have fewer than {_FEW_OF_LABEL} rows: {which}{more}"
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
        unknown = Counter(word.lower() for row in test for word in split_words(_joined(row.text)) if word.isalpha())
        words = number = unknown.total()
        for row in train:
            if number <= _UNKNOWN * words:  # mostly after few of the texts
                return
            number -= sum(unknown.pop(word.lower(), 0) for word in split_words(_joined(row.text)))
        if number > _UNKNOWN * words:
            part = number / words
            more = "" if unlabeled else ": --unlabeled FILE teaches more"
            yield f"{part:.0%} of the words of the test texts are in no training text{more}"


def shortened(text: Any) -> str:
    """Return the beginning of a text on one line."""
    line = printable(" ".join(_joined(text).split()))
    return line if len(line) <= _WIDTH else line[: _WIDTH - 3] + "..."


def _joined(text: Any) -> str:
    return text if isinstance(text, str) else (" | " if isinstance(text, tuple) else " ").join(text)


def _labels(target: Target) -> tuple[str, ...]:
    from mixling.data.examples import names_of

    return tuple(name for name in names_of(target) if name != "O")


def written(value: Any) -> str:
    """Return a target as people read it."""
    if isinstance(value, tuple):
        return ", ".join(value) or "none"
    if value == "":
        return "no answer"
    return f"{value:g}" if isinstance(value, float) else str(value)
