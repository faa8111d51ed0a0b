"""Exact match and F1 of answers, as defined by SQuAD's evaluation (Rajpurkar et al. 2016 and 2018).

Answers are compared in lower case, without ASCII punctuation, without the words a, an and the, and with single spaces.
These rules are for English: articles and punctuation of other languages stay, and text without spaces is one word, so
that its F1 is close to exact match. Published numbers for such languages may use other definitions.
"""

from __future__ import annotations

import itertools
import re
import string
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mixling.answers.questions import Answers, Found
from mixling.errors import DataError
from mixling.metrics.base import Metrics

_PUNCTUATION = str.maketrans("", "", string.punctuation)
_ARTICLES = re.compile(r"\b(a|an|the)\b")


@dataclass(frozen=True, kw_only=True, repr=False)
class AnswerMetrics(Metrics):
    """Metrics of answers to `n` questions, from 0 to 1; for a question without an answer, the empty one is right.

    Attributes:
        exact_match: fraction of questions whose normalized answer is one of the right ones.
        f1: mean over questions of the word overlap with the closest right answer.
        answerable_exact_match, answerable_f1: over the questions that have an answer (HasAns); None if all have one, or
            none has.
        unanswerable_accuracy: fraction of the others (NoAns) that got no answer; None if all have one.
    """

    n_unanswerable: int
    exact_match: float
    f1: float
    answerable_exact_match: float | None
    answerable_f1: float | None
    unanswerable_accuracy: float | None

    def summary(self) -> str:
        parts = ""
        if self.unanswerable_accuracy is not None:
            parts = f", {self.n_unanswerable} without answer: accuracy {self.unanswerable_accuracy:.4f}"
        if self.answerable_f1 is not None:
            parts += f", others: exact match {self.answerable_exact_match:.4f}, F1 {self.answerable_f1:.4f}"
        return f"exact match {self.exact_match:.4f}, F1 {self.f1:.4f}, {self.n} questions{parts}"


def normalize_answer(text: str) -> str:
    """Return an answer in lower case, without punctuation and articles, with single spaces."""
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def score_answer(text: str, right: Answers) -> tuple[float, float]:
    """Return exact match and F1 of one answer ("": no answer), each the maximum over the right answers.

    Right answers that are empty after normalization do not count, unless all are; then no answer is right.
    """
    given = normalize_answer(text)
    golds = [gold for gold in map(normalize_answer, right.texts) if gold] or [""]
    return float(given in golds), max(_overlap(given, gold) for gold in golds)


def _overlap(given: str, gold: str) -> float:
    if not given or not gold:
        return float(given == gold)
    words = given.split()
    wanted = gold.split()
    common = sum((Counter(words) & Counter(wanted)).values())
    return 2 * common / (len(words) + len(wanted))


def answer_report(answers: Sequence[str], right: Sequence[Answers]) -> AnswerMetrics:
    """Score answers; "" is no answer.

    Raises:
        DataError: there is no question.
    """
    if not answers:
        raise DataError("there is nothing to evaluate: got no rows; give at least one question with its answers")
    scores = np.array([score_answer(text, gold) for text, gold in zip(answers, right, strict=True)])
    has = np.array([bool(gold.texts) for gold in right])
    exact, f1 = scores.mean(0).tolist()
    mixed = has.any() and not has.all()
    return AnswerMetrics(
        n=len(answers),
        per_class=(),
        n_unanswerable=int((~has).sum()),
        exact_match=exact,
        f1=f1,
        answerable_exact_match=float(scores[has, 0].mean()) if mixed else None,
        answerable_f1=float(scores[has, 1].mean()) if mixed else None,
        unanswerable_accuracy=float(scores[~has, 0].mean()) if not has.all() else None,
    )


def choose_threshold(found: Sequence[Found], texts: Sequence[str], right: Sequence[Answers]) -> float:
    """Return the threshold on the margin of no answer with the highest mean F1.

    It is midway between the margins of two questions, so that rounding does not matter; of equally good thresholds the
    lowest, which gives "no answer" most often.

    Args:
        texts: the text of each found answer.
    """
    known = [i for i, item in enumerate(found) if item.span is not None]  # the others have no answer at any threshold
    known.sort(key=lambda i: found[i].margin)
    margins = [found[i].margin for i in known]
    if not margins:
        return 0.0
    gains = []
    for i in known:
        gains.append(score_answer(texts[i], right[i])[1] - score_answer("", right[i])[1])
    cuts = [margins[0] - 1, *((a + b) / 2 for a, b in itertools.pairwise(margins)), margins[-1] + 1]
    totals = np.cumsum([0.0, *gains])
    # No threshold separates equal margins.
    allowed = np.array([True, *(a < b for a, b in itertools.pairwise(margins)), True])
    return float(cuts[int(np.where(allowed, totals, -np.inf).argmax())])
