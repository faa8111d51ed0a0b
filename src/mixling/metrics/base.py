"""The metrics of each task, and their table for a terminal.

A score with a zero denominator is 0 (a class that is never predicted has precision 0); an undefined score is None.
"""

from __future__ import annotations

import unicodedata
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from mixling.errors import printable
from mixling.metrics.reliability import Reliability

TABLE_ROWS = 40
_REPR_SCORES = 3
_NAME_COLUMNS = 40
_LEAST_OF_NAME = 10
_OF_FIGURES = 38  # characters beside the name of a class


@dataclass(frozen=True)
class ClassScore:
    """The scores of one class or span type; `support` counts its true occurrences."""

    label: str
    precision: float
    recall: float
    f1: float
    support: int


@dataclass(frozen=True, kw_only=True, repr=False)
class Metrics(ABC):
    """Metrics of any task: `n` examples, and the scores of each class in the order of the label set.

    Computed with `tables=False`, they have no classes and no confusion matrix.
    """

    n: int
    per_class: tuple[ClassScore, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return JSON values."""
        return vars(self) | {"per_class": list(map(asdict, self.per_class))}

    def numbers(self) -> dict[str, float]:
        """Return the metrics that are single numbers and defined, without the counts."""
        return {name: value for name, value in vars(self).items() if isinstance(value, float)}

    def value(self, key: str) -> float:
        """Return a metric to choose by; 0 for a correlation that is undefined, as equal predictions show none."""
        return self.numbers().get(key, 0.0)

    @abstractmethod
    def summary(self) -> str:
        """Return one line for a terminal."""

    def __repr__(self) -> str:
        """Show the first scores; `print` shows the summary and the table of classes, `to_dict` has all values."""
        scores = [f"{name}={value:.4f}" for name, value in self.numbers().items() if name != "calibration_error"]
        return f"{type(self).__name__}(n={self.n}, {', '.join([*scores[:_REPR_SCORES], '...'])})"

    def __str__(self) -> str:
        return format_table(self)

    def _repr_html_(self) -> str:
        from mixling.notebook import html_table

        scores = html_table(["score", "value"], titled(vars(self)).items(), caption=f"{self.n:,} examples")
        if not self.per_class:
            return scores
        rows = [(row.label, row.precision, row.recall, row.f1, row.support) for row in self.per_class]
        more = f"{TABLE_ROWS} of {len(rows)} classes, by lowest F1" if len(rows) > TABLE_ROWS else ""
        rows = sorted(rows, key=lambda row: row[3])[:TABLE_ROWS] if more else rows
        return scores + html_table(["class", "precision", "recall", "F1", "support"], rows, caption=more)


LESS_IS_BETTER = frozenset({"mse", "mae", "rmse", "mean_cost"})
_TITLES = {
    "answerable_f1": "answerable F1",
    "f1": "F1",
    "log_loss": "log-loss",
    "macro_f1": "macro F1",
    "matthews": "Matthews correlation",
    "micro_f1": "micro F1",
    "roc_auc": "ROC-AUC",
    "span_f1": "span F1",
    "word_accuracy_without_o": "word accuracy without O",
}


def metric_title(key: str) -> str:
    """Return the name of a score that people read: macro F1 of macro_f1."""
    return _TITLES.get(key, key.replace("_", " "))


def titled(metrics: Mapping[str, Any]) -> dict[str, float]:
    """Return the scores among the values of `Metrics.to_dict` by the names that people read, calibration last."""
    values = {key: value for key, value in metrics.items() if isinstance(value, float)}
    ordered = sorted(values, key=lambda key: key == "calibration_error")
    return {metric_title(key): values[key] for key in ordered}


@dataclass(frozen=True, kw_only=True)
class LevelScore:
    """The scores of one level of labels, such as "card" of "card > lost".

    Attributes:
        labels: the number of its parts of labels.
        accuracy, macro_f1: of the answers from the top down, whether they are certain or not.
        flat_accuracy, flat_macro_f1: of the most probable whole labels, the baseline.
        coverage: the fraction of texts that are answered down to this level; 1 for a model that never abstains.
        accuracy_of_answered: the accuracy on these texts; None if there is none.
    """

    labels: int
    accuracy: float
    macro_f1: float
    flat_accuracy: float
    flat_macro_f1: float
    coverage: float
    accuracy_of_answered: float | None


@dataclass(frozen=True, kw_only=True, repr=False)
class ProbabilityMetrics(Metrics):
    """Metrics of a task whose predictions have probabilities.

    Attributes:
        calibration_error: the expected calibration error over the 15 bins of `reliability`; None: there are no
            probabilities.
        reliability: the bins of the reliability diagram: of the top probability of each text or word, or of the
            probability of each label of each text. Empty where tables are.
    """

    calibration_error: float | None
    reliability: Reliability

    def to_dict(self) -> dict[str, Any]:
        return super().to_dict() | {"reliability": [item and asdict(item) for item in self.reliability]}


@dataclass(frozen=True, kw_only=True, repr=False)
class ClassificationMetrics(ProbabilityMetrics):
    """Metrics of single-label classification.

    Attributes:
        macro_f1: the mean F1 of the classes that occur among the targets or the predictions.
        balanced_accuracy: the mean recall of the classes that occur among the targets.
        matthews: the correlation of targets and predictions (Gorodkin, "Comparing two K-category assignments by a
            K-category correlation coefficient", 2004; of two classes Matthews'): 1 if all are right, 0 for
            guesses, and for always the same class.
        label_f1: of the label that the metric of the model names; else None.
        mean_cost: of the answers, of a model with costs of errors; else None.
        log_loss: in nats, over the texts whose label the model has.
        coverage: the fraction of texts that are answered, of a model that abstains; else None.
        accuracy_of_answered: the accuracy on these texts; None if there is none.
        set_coverage: the fraction of texts whose conformal set has their label, of a model with such sets; else None.
        set_size: the mean number of labels in a set.
        roc_auc: with two classes, class 1's; with more, the mean one-vs-rest area over the classes that some but
            not all texts have; None without such a class, and with very many classes.
        confusion: (C, C) counts; rows are true classes, columns predicted ones; of very many classes empty.
        levels: the scores of each level of the labels, from the top; empty where they have none.
    """

    accuracy: float
    macro_f1: float
    balanced_accuracy: float
    matthews: float
    label_f1: float | None
    mean_cost: float | None
    log_loss: float
    coverage: float | None
    accuracy_of_answered: float | None
    set_coverage: float | None
    set_size: float | None
    roc_auc: float | None
    confusion: tuple[tuple[int, ...], ...]
    levels: tuple[LevelScore, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        out = super().to_dict() | {"confusion": [list(row) for row in self.confusion]}
        return out | {"levels": list(map(asdict, self.levels))}

    @property
    def level_lines(self) -> tuple[str, ...]:
        """A line for each level of the labels."""
        return tuple(
            f"level {number}: {score.labels} labels, accuracy {score.accuracy:.4f} (flat {score.flat_accuracy:.4f}), "
            f"macro F1 {score.macro_f1:.4f} (flat {score.flat_macro_f1:.4f})"
            + ("" if self.coverage is None else f", answered {score.coverage:.1%}, of these ")
            + ("" if self.coverage is None else f"{_or_dash(score.accuracy_of_answered)} right")
            for number, score in enumerate(self.levels, start=1)
        )

    def summary(self) -> str:
        return (
            f"accuracy {self.accuracy:.4f}, macro F1 {self.macro_f1:.4f}, "
            f"Matthews correlation {self.matthews:.4f}, log-loss {self.log_loss:.4f}, "
            f"ROC-AUC {_or_dash(self.roc_auc)}, calibration error {_or_dash(self.calibration_error)}, {self.n} texts"
            + ("" if self.coverage is None else self._answered())
            + ("" if self.set_coverage is None else self._covered())
            + "".join(f"\n{line}" for line in self.level_lines)
        )

    def _covered(self) -> str:
        return f"; conformal sets of {self.set_size:.2f} labels cover {self.set_coverage or 0:.1%}"

    def _answered(self) -> str:
        assert self.coverage is not None
        return f"; answered {self.coverage:.1%}, of these {_or_dash(self.accuracy_of_answered)} right"


@dataclass(frozen=True, kw_only=True, repr=False)
class MultiLabelMetrics(ProbabilityMetrics):
    """Metrics of multi-label classification.

    Attributes:
        subset_accuracy: the fraction of texts whose whole set of labels is right.
        micro_f1: over all (text, label) decisions.
        macro_f1: the mean F1 of the labels that occur among the targets or the predictions.
        sample_f1: the mean F1 of the sets of labels of the texts; 1 for a text without labels that gets none.
        roc_auc: the mean over the labels that some but not all texts have; None without such a label.
    """

    subset_accuracy: float
    micro_f1: float
    macro_f1: float
    sample_f1: float
    roc_auc: float | None

    def summary(self) -> str:
        return (
            f"subset accuracy {self.subset_accuracy:.4f}, micro F1 {self.micro_f1:.4f}, "
            f"macro F1 {self.macro_f1:.4f}, ROC-AUC {_or_dash(self.roc_auc)}, "
            f"calibration error {_or_dash(self.calibration_error)}, {self.n} texts"
        )


@dataclass(frozen=True, kw_only=True, repr=False)
class TaggingMetrics(ProbabilityMetrics):
    """Metrics of tagging; the classes are the span types, sorted.

    Attributes:
        n_words: number of words.
        word_accuracy: over all words, including those tagged O.
        word_accuracy_without_o: over the words whose true tag is not O; None without such a word. The "exact match"
            that the pNLP-Mixer paper reports is compared with it (docs/papers.md).
        span_precision, span_recall, span_f1: over spans of all types; a span counts if its type and both ends are
            right (as in conlleval).
        sentence_accuracy: fraction of sentences without a wrong tag.
    """

    n_words: int
    word_accuracy: float
    word_accuracy_without_o: float | None
    span_precision: float
    span_recall: float
    span_f1: float
    sentence_accuracy: float

    def summary(self) -> str:
        return (
            f"word accuracy {self.word_accuracy:.4f} (without O {_or_dash(self.word_accuracy_without_o)}), "
            f"span F1 {self.span_f1:.4f} (precision {self.span_precision:.4f}, recall {self.span_recall:.4f}), "
            f"sentence accuracy {self.sentence_accuracy:.4f}, calibration error {_or_dash(self.calibration_error)}, "
            f"{self.n_words} words in {self.n} sentences"
        )


@dataclass(frozen=True)
class Score:
    """The score of one model's answers, for comparisons.

    Attributes:
        numbers: the task's headline metric and the secondary ones.
        rows: how many there are, R.
        sample: returns the metrics that depend on the answers alone, of a sample of the rows, given their indices.
        hits: (R,) 1 for a right answer, else 0; None: an answer may be partly right.
    """

    numbers: dict[str, float]
    rows: int
    sample: Callable[[npt.NDArray[np.int64]], dict[str, float]]
    hits: npt.NDArray[np.float64] | None = None


def format_table(metrics: Metrics, width: int | None = None) -> str:
    """Return the summary and the table of classes as text; of more than 40 classes, those with the lowest F1.

    Args:
        width: characters of a line, in which names have what the figures leave them; None: 78.
    """
    room = _NAME_COLUMNS if width is None else min(_NAME_COLUMNS, max(width - _OF_FIGURES, _LEAST_OF_NAME))
    rows = list(metrics.per_class)
    if not rows:
        return metrics.summary()
    remark = ""
    if len(rows) > TABLE_ROWS:
        # The lowest scores are of interest; classes without examples come last.
        order = sorted(range(len(rows)), key=lambda index: (rows[index].support == 0, rows[index].f1, index))
        shown = sorted(order[:TABLE_ROWS])
        remark = f"({TABLE_ROWS} of {len(rows)} classes, by lowest F1; {len(rows) - TABLE_ROWS} are left out)"
        rows = [rows[index] for index in shown]
    names = [_printable(row.label, room) for row in rows]
    longest = max(len("class"), *(_columns(name) for name in names))
    lines = [metrics.summary(), "", f"{'class':<{longest}}  precision  recall      F1  support"]
    for name, row in zip(names, rows, strict=True):
        pad = " " * (longest - _columns(name))
        lines.append(f"{name}{pad}  {row.precision:9.4f}  {row.recall:6.4f}  {row.f1:6.4f}  {row.support:7d}")
    return "\n".join([*lines, remark] if remark else lines)


def _or_dash(value: float | None) -> str:
    return "-" if value is None else f"{value:.4f}"


def _printable(name: str, room: int) -> str:
    """Return a label without control characters, cut to `room` columns."""
    name = printable(name)
    if _columns(name) <= room:
        return name
    while _columns(name) >= room:
        name = name[:-1]
    return name + "…"


def _columns(name: str) -> int:
    """Return the width of a name in terminal columns: East Asian wide characters take two, combining marks none."""
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in name)
