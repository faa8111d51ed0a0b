"""Metrics of generated text: exact match, the metrics of GLUE and SuperGLUE, corpus BLEU and chrF.

Texts are compared exactly, except for outer white space. The metrics follow Wang et al. (GLUE, 2019; SuperGLUE,
2019). They do not define how generations that are not labels count; here it is mostly as in T5:

- In accuracy and in MultiRC's exact match they are wrong.
- In F1, F1a and Matthews' correlation they count as the incorrect label. (In T5 they are a third label in the latter,
  which makes it a different metric.)
- In macro F1 they are a false negative of the correct label and no false positive; the mean is over labels that occur
  as target or prediction (T5: over all labels of the task).
- In STS-B generations other than a number from 0 to 5 count as 0. (T5 counts non-numbers as -1 and accepts any number.)

A correlation that is undefined, because all predictions are the same, is 0.
"""

from __future__ import annotations

import importlib
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from mixling.answers.questions import Answers
from mixling.errors import DataError, MissingPackage
from mixling.installation import install_command
from mixling.metrics.base import Metrics
from mixling.metrics.squad import score_answer
from mixling.research.seq2seq.pair import Pair
from mixling.research.seq2seq.templates import HIGHEST, Metric, Template, find_template


@dataclass(frozen=True)
class GroupScore:
    """The exact match of the pairs of one group."""

    group: str
    n: int
    exact_match: float


@dataclass(frozen=True, kw_only=True, repr=False)
class TextMetrics(Metrics):
    """Metrics of the generations for `n` pairs, from 0 to 1; correlations from -1; `bleu` and `chrf` from 0 to 100.

    Attributes:
        exact_match: fraction of generations that equal a target.
        metrics: the metrics of the template's benchmark; empty without a template.
        score: their mean, which enters the average of the benchmark; None without a template.
        no_label: fraction of generations that are not labels, or numbers, of the template; None if any text is allowed.
        groups: exact match of each group of pairs, sorted.
        bleu, chrf: as of sacreBLEU with its defaults; None if not requested.
    """

    exact_match: float
    metrics: Mapping[str, float]
    score: float | None
    no_label: float | None
    groups: tuple[GroupScore, ...]
    bleu: float | None = None
    chrf: float | None = None

    def numbers(self) -> dict[str, float]:
        return super().numbers() | dict(self.metrics)

    def to_dict(self) -> dict[str, Any]:
        return super().to_dict() | {"metrics": dict(self.metrics), "groups": list(map(asdict, self.groups))}

    def summary(self) -> str:
        parts = [f"exact match {self.exact_match:.4f}"]
        parts += [f"{name.replace('_', ' ')} {value:.4f}" for name, value in self.metrics.items()]
        if len(self.metrics) > 1:
            parts.append(f"mean {self.score:.4f}")
        if self.bleu is not None:
            parts.append(f"BLEU {self.bleu:.2f}, chrF {self.chrf:.2f}")
        if self.no_label:
            parts.append(f"{self.no_label:.2%} not a label")
        return ", ".join([*parts, f"{self.n} pairs"])


def text_report(
    texts: Sequence[str], pairs: Sequence[Pair], *, template: str | None = None, bleu: bool = False
) -> TextMetrics:
    """Return the metrics of generated texts for pairs with targets.

    Args:
        pairs: a template's must have been read with `training=False`.
        template: the name of a template, whose metrics are computed as well.
        bleu: also compute sacreBLEU and chrF.

    Raises:
        ConfigError: the template does not exist.
        DataError: there is no pair, or a pair has no target, or one that the template does not allow.
        UserError: scikit-learn, scipy or sacrebleu is needed and not installed.
    """
    task = None if template is None else find_template(template)
    if not texts:
        raise DataError("there is nothing to evaluate: got no rows; give at least one pair with a target")
    given = [text.strip() for text in texts]
    case = _Case(given, [_targets(pair, task) for pair in pairs], [pair.question for pair in pairs],
                 () if task is None else task.labels)  # fmt: skip
    hits = case.hits
    metrics: dict[str, float] = {} if task is None else {name: _METRICS[name](case) for name in task.metrics}
    bleu_score, chrf_score = _sacrebleu(given, case.right) if bleu else (None, None)
    return TextMetrics(
        n=len(given),
        per_class=(),
        exact_match=float(hits.mean()),
        metrics=metrics,
        score=float(np.mean(list(metrics.values()))) if metrics else None,
        no_label=None if task is None else _no_label(given, task),
        groups=_groups(hits, pairs),
        bleu=bleu_score,
        chrf=chrf_score,
    )


@dataclass(frozen=True)
class _Case:
    """Generation, the correct texts for each, their questions, and the template's labels."""

    given: list[str]
    right: list[tuple[str, ...]]
    questions: list[str | None]
    labels: tuple[str, ...]

    @property
    def hits(self) -> np.ndarray:
        return np.array([text in right for text, right in zip(self.given, self.right, strict=True)])

    @property
    def positive(self) -> tuple[np.ndarray, np.ndarray]:
        """For two labels: where the second is the target, and where it is predicted, as which non-labels may count."""
        right = np.array([texts[0] == self.labels[1] for texts in self.right])
        return right, right == self.hits

    @property
    def numbers(self) -> tuple[np.ndarray, np.ndarray]:
        """Targets and predictions as numbers."""
        right = [float(texts[0]) for texts in self.right]
        given = [_number(answer) for answer in self.given]
        return np.array(right), np.array([0.0 if number is None else number for number in given])


def _macro_f1(case: _Case) -> float:
    ids = {label: number for number, label in enumerate(case.labels)}
    right = [ids[texts[0]] for texts in case.right]
    given = [ids.get(answer, -1) for answer in case.given]
    occurring = sorted({*right, *given} - {-1})
    return float(_library("sklearn.metrics").f1_score(right, given, labels=occurring, average="macro"))


def _f1(case: _Case) -> float:
    return float(_library("sklearn.metrics").f1_score(*case.positive, zero_division=0))


def _matthews(case: _Case) -> float:
    return float(_library("sklearn.metrics").matthews_corrcoef(*case.positive))


def _question_exact_match(case: _Case) -> float:
    """Return the fraction of questions all of whose answers are predicted correctly."""
    correct: dict[str | None, bool] = defaultdict(lambda: True)
    for question, hit in zip(case.questions, case.hits.tolist(), strict=True):
        correct[question] &= hit
    return float(np.mean(list(correct.values())))


def _correlation(case: _Case, name: str) -> float:
    right, given = case.numbers
    if np.ptp(right) == 0 or np.ptp(given) == 0:
        return 0.0
    return float(getattr(_library("scipy.stats"), name)(right, given)[0])


def _squad(case: _Case) -> tuple[float, float]:
    """Return normalized exact match and F1, each the maximum over the correct texts."""
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


def _targets(pair: Pair, template: Template | None) -> tuple[str, ...]:
    right = tuple(text.strip() for text in pair.right)
    if not right:
        raise DataError("there is no target; give the row one", path=pair.path, line=pair.line)
    if template is None:
        return right
    what = f"the template {template.name}"
    if template.labels and right[0] not in template.labels:
        allowed = ", ".join(template.labels)
        raise DataError(f"{what} has no label {right[0]!r}; allowed: {allowed}", path=pair.path, line=pair.line)
    if {"pearson", "spearman"} & {*template.metrics} and _number(right[0]) is None:
        message = f"{what} allows numbers from 0 to {HIGHEST:g}; got {right[0][:40]!r}"
        raise DataError(message, path=pair.path, line=pair.line)
    if "question_exact_match" in template.metrics and pair.question is None:
        message = f"{what} groups answers by question, but the pair has none; read it with the template"
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


def _groups(hits: np.ndarray, pairs: Sequence[Pair]) -> tuple[GroupScore, ...]:
    groups: dict[str, list[bool]] = defaultdict(list)
    for hit, pair in zip(hits.tolist(), pairs, strict=True):
        if pair.group is not None:
            groups[pair.group].append(hit)
    return tuple(GroupScore(group, len(part), float(np.mean(part))) for group, part in sorted(groups.items()))


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
        raise MissingPackage(f"metrics need {package}; install it by {install_command('torch')}") from None
