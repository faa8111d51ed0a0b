"""How good written answers are: exact match, the measures of GLUE and SuperGLUE, and corpus BLEU and chrF.

An answer and what is right are compared without outer white space and otherwise sign for sign. The measures are those
of Wang et al. (GLUE, 2019; SuperGLUE, 2019); how an answer that is none of the labels counts, they need not say, and it
is decided here, mostly as T5 does:

- In an accuracy and in MultiRC's exact match it is wrong.
- In F1 and F1a, and in Matthews' correlation, it counts as the label that is not right. (T5 lets it be a third label
  in the latter, which makes it another measure.)
- In a macro F1 it is a miss of the right label and of no other; the mean goes over the labels that are right or given
  somewhere (T5's over all that the task has).
- STS-B's answers that are no number from 0 to 5 count as 0. T5 counts what is no number as -1 and takes any number.

A correlation that does not exist, as all answers are the same, is 0.
"""

from __future__ import annotations

import importlib
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from mixling.errors import DataError, MissingPackage
from mixling.metrics.base import Metrics
from mixling.metrics.squad import score_answer
from mixling.seq2seq.pair import Pair
from mixling.seq2seq.templates import HIGHEST, Metric, Template, find_template
from mixling.text.answers import Answers


@dataclass(frozen=True)
class KindScore:
    """The exact match of the pairs of one kind."""

    kind: str
    n: int
    exact_match: float


@dataclass(frozen=True, kw_only=True)
class TextMetrics(Metrics):
    """Scores of answers to `n` pairs, from 0 to 1; correlations from -1; `bleu` and `chrf` from 0 to 100.

    Attributes:
        exact_match: the part of the answers that are a right one.
        metrics: the numbers that the form's benchmark takes; none without a form.
        score: their mean, which is what the task adds to the benchmark's average; None without a form.
        no_label: the part of the answers that are none of the form's labels, or no number that it allows; None where
            an answer is free.
        kinds: the exact match of each kind of pair, sorted.
        bleu, chrf: of sacreBLEU, with its own tokens and settings; None where they were not asked for.
    """

    exact_match: float
    metrics: Mapping[str, float]
    score: float | None
    no_label: float | None
    kinds: tuple[KindScore, ...]
    bleu: float | None = None
    chrf: float | None = None

    def numbers(self) -> dict[str, float]:
        return super().numbers() | dict(self.metrics)

    def to_dict(self) -> dict[str, Any]:
        return super().to_dict() | {"metrics": dict(self.metrics), "kinds": [asdict(kind) for kind in self.kinds]}

    def summary(self) -> str:
        parts = [f"exact match {self.exact_match:.4f}"]
        parts += [f"{name.replace('_', ' ')} {value:.4f}" for name, value in self.metrics.items()]
        if len(self.metrics) > 1:
            parts.append(f"their mean {self.score:.4f}")
        if self.bleu is not None:
            parts.append(f"BLEU {self.bleu:.2f}, chrF {self.chrf:.2f}")
        if self.no_label:
            parts.append(f"{self.no_label:.2%} none of the labels")
        return ", ".join([*parts, f"{self.n} pairs"])


def text_report(
    answers: Sequence[str], pairs: Sequence[Pair], *, template: str | None = None, bleu: bool = False
) -> TextMetrics:
    """Score answers to pairs whose targets are known; those of a form are to be read with `training=False`.

    Raises:
        ConfigError: a form that does not exist.
        DataError: there is no pair; a pair has no target, or one that the form does not allow.
        UserError: scikit-learn, scipy or sacrebleu is needed and not installed.
    """
    task = None if template is None else find_template(template)
    if not answers:
        raise DataError("there is nothing to evaluate: got no rows; give at least one pair with its target")
    given = [answer.strip() for answer in answers]
    right = [_right(pair, task) for pair in pairs]
    hits = np.array([answer in texts for answer, texts in zip(given, right, strict=True)])
    metrics: dict[str, float] = {}
    if task is not None:
        case = _Case(given, right, [pair.question for pair in pairs], task.labels)
        metrics = {name: float(_METRICS[name](case)) for name in task.metrics}
    bleu_score, chrf_score = _sacrebleu(given, right) if bleu else (None, None)
    return TextMetrics(
        n=len(given),
        per_class=(),
        exact_match=float(hits.mean()),
        metrics=metrics,
        score=float(np.mean(list(metrics.values()))) if metrics else None,
        no_label=None if task is None else _no_label(given, task),
        kinds=_kinds(hits, pairs),
        bleu=bleu_score,
        chrf=chrf_score,
    )


@dataclass(frozen=True)
class _Case:
    """Answers, what is right for each, the questions that they belong to, and the form's labels."""

    given: list[str]
    right: list[tuple[str, ...]]
    questions: list[str | None]
    labels: tuple[str, ...]

    @property
    def hits(self) -> np.ndarray:
        return np.array([answer in texts for answer, texts in zip(self.given, self.right, strict=True)])

    @property
    def positive(self) -> tuple[np.ndarray, np.ndarray]:
        """Of two labels: where the second is right, and where it is given, or the first is right and no label given."""
        right = np.array([texts[0] == self.labels[1] for texts in self.right])
        return right, right == self.hits

    @property
    def numbers(self) -> tuple[np.ndarray, np.ndarray]:
        """What is right, and what is given, as numbers."""
        right = [float(texts[0]) for texts in self.right]
        given = [_number(answer) for answer in self.given]
        return np.array(right), np.array([0.0 if number is None else number for number in given])


def _macro_f1(case: _Case) -> float:
    ids = {label: number for number, label in enumerate(case.labels)}
    right, given = [ids[texts[0]] for texts in case.right], [ids.get(answer, -1) for answer in case.given]
    occurring = sorted({*right, *given} - {-1})
    return float(_library("sklearn.metrics").f1_score(right, given, labels=occurring, average="macro"))


def _f1(case: _Case) -> float:
    return float(_library("sklearn.metrics").f1_score(*case.positive, zero_division=0))


def _matthews(case: _Case) -> float:
    return float(_library("sklearn.metrics").matthews_corrcoef(*case.positive))


def _question_exact_match(case: _Case) -> float:
    """The part of the questions of which all answers are right."""
    whole: dict[str | None, bool] = defaultdict(lambda: True)
    for question, hit in zip(case.questions, case.hits.tolist(), strict=True):
        whole[question] &= hit
    return float(np.mean(list(whole.values())))


def _correlation(case: _Case, name: str) -> float:
    right, given = case.numbers
    if np.ptp(right) == 0 or np.ptp(given) == 0:
        return 0.0
    return float(getattr(_library("scipy.stats"), name)(right, given)[0])


def _squad(case: _Case) -> tuple[float, float]:
    """Exact match and F1, normalized, each the greatest over the right answers."""
    pairs = zip(case.given, case.right, strict=True)
    scores = [score_answer(answer, Answers(texts, (0,) * len(texts))) for answer, texts in pairs]
    exact, f1 = np.mean(scores, 0).tolist()
    return exact, f1


_METRICS: Mapping[Metric, Callable[[_Case], float]] = {
    "accuracy": lambda case: float(case.hits.mean()),
    "f1": _f1,
    "f1a": _f1,  # over all answers of all questions
    "macro_f1": _macro_f1,
    "matthews": _matthews,
    "pearson": lambda case: _correlation(case, "pearsonr"),
    "question_exact_match": _question_exact_match,
    "spearman": lambda case: _correlation(case, "spearmanr"),
    "squad_exact_match": lambda case: _squad(case)[0],
    "squad_f1": lambda case: _squad(case)[1],
}


def _right(pair: Pair, template: Template | None) -> tuple[str, ...]:
    right = tuple(text.strip() for text in pair.right)
    if not right:
        raise DataError("there is no right answer; give the row a target", path=pair.path, line=pair.line)
    if template is None:
        return right
    what = f"the form {template.name}"
    if template.labels and right[0] not in template.labels:
        allowed = ", ".join(template.labels)
        raise DataError(f"{what} has no label {right[0]!r}; allowed: {allowed}", path=pair.path, line=pair.line)
    if {"pearson", "spearman"} & {*template.metrics} and _number(right[0]) is None:
        message = f"{what} has numbers from 0 to {HIGHEST:g}; got {right[0][:40]!r}"
        raise DataError(message, path=pair.path, line=pair.line)
    if "question_exact_match" in template.metrics and pair.question is None:
        message = f"{what} measures the answers of a question together; the pair has none, read it by its form"
        raise DataError(message, path=pair.path, line=pair.line)
    return right


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if 0 <= number <= HIGHEST else None


def _no_label(given: list[str], template: Template) -> float | None:
    if template.labels:
        return float(np.mean([answer not in template.labels for answer in given]))
    if "pearson" in template.metrics:
        return float(np.mean([_number(answer) is None for answer in given]))
    return None


def _kinds(hits: np.ndarray, pairs: Sequence[Pair]) -> tuple[KindScore, ...]:
    found: dict[str, list[bool]] = defaultdict(list)
    for hit, pair in zip(hits.tolist(), pairs, strict=True):
        if pair.kind is not None:
            found[pair.kind].append(hit)
    return tuple(KindScore(kind, len(part), float(np.mean(part))) for kind, part in sorted(found.items()))


def _sacrebleu(given: list[str], right: list[tuple[str, ...]]) -> tuple[float, float]:
    library = _library("sacrebleu")
    most = max(map(len, right))
    streams = [[texts[number] if number < len(texts) else None for texts in right] for number in range(most)]
    return library.BLEU().corpus_score(given, streams).score, library.CHRF().corpus_score(given, streams).score


def _library(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        package = {"sklearn": "scikit-learn"}.get(name.split(".")[0], name.split(".")[0])
        raise MissingPackage(f'metrics need {package}; install it by pip install "mixling[train]"') from None
