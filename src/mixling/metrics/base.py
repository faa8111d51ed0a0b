"""How good predictions are: what there is to say of each kind of task, and as a table for a terminal.

Scores that divide by zero are 0 (a class never predicted has precision 0); scores that do not exist at all are None.
"""

from __future__ import annotations

import unicodedata
from abc import ABC, abstractmethod
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from mixling.errors import printable

TABLE_ROWS = 40
_NAME_COLUMNS = 40


@dataclass(frozen=True)
class ClassScore:
    """The scores of one class or span type; `support` counts its true occurrences."""

    label: str
    precision: float
    recall: float
    f1: float
    support: int


@dataclass(frozen=True, kw_only=True)
class Metrics(ABC):
    """What every report has: `n` texts or sentences, and the scores of each class in the order of the label set.

    A report that was made without tables has none of the classes, and no confusion matrix.
    """

    n: int
    per_class: tuple[ClassScore, ...]

    def to_dict(self) -> dict[str, Any]:
        """JSON values."""
        return vars(self) | {"per_class": [asdict(row) for row in self.per_class]}

    def numbers(self) -> dict[str, float]:
        """The measures that are single numbers and exist; not the counts."""
        return {name: value for name, value in vars(self).items() if isinstance(value, float)}

    @abstractmethod
    def summary(self) -> str:
        """One line for a terminal."""


@dataclass(frozen=True, kw_only=True)
class ClassificationMetrics(Metrics):
    """Scores of a classifier whose texts have one label each.

    Attributes:
        macro_f1: the mean F1 of the classes that occur among the targets or the predictions.
        log_loss: in nats, of the texts whose label the model knows.
        roc_auc: of class 1 where there are two classes; else the mean of each class against the rest, over the classes
            that some but not all texts have; None where there is none.
        calibration_error: sum over 15 equal bins b of the top probability of (n_b / n) * |accuracy_b - confidence_b|.
        confusion: (C, C) counts, a row for each true class, a column for each predicted one.
    """

    accuracy: float
    macro_f1: float
    log_loss: float
    roc_auc: float | None
    calibration_error: float
    confusion: tuple[tuple[int, ...], ...]

    def to_dict(self) -> dict[str, Any]:
        return super().to_dict() | {"confusion": [list(row) for row in self.confusion]}

    def summary(self) -> str:
        return (
            f"accuracy {self.accuracy:.4f}, macro F1 {self.macro_f1:.4f}, log-loss {self.log_loss:.4f}, "
            f"ROC-AUC {_or_dash(self.roc_auc)}, calibration error {self.calibration_error:.4f}, {self.n} texts"
        )


@dataclass(frozen=True, kw_only=True)
class MultiLabelMetrics(Metrics):
    """Scores of a classifier whose texts have any number of labels.

    Attributes:
        subset_accuracy: the part of the texts whose set of labels is right as a whole.
        micro_f1: of all decisions (text, label) together.
        macro_f1: the mean F1 of the labels that occur among the targets or the predictions.
        roc_auc: the mean over the labels that some but not all texts have; None where there is none.
    """

    subset_accuracy: float
    micro_f1: float
    macro_f1: float
    roc_auc: float | None

    def summary(self) -> str:
        return (
            f"subset accuracy {self.subset_accuracy:.4f}, micro F1 {self.micro_f1:.4f}, "
            f"macro F1 {self.macro_f1:.4f}, ROC-AUC {_or_dash(self.roc_auc)}, {self.n} texts"
        )


@dataclass(frozen=True, kw_only=True)
class TaggingMetrics(Metrics):
    """Scores of a tagger; its classes are the types of spans, sorted.

    Attributes:
        n_words: words.
        word_accuracy: over all words, those tagged O included.
        word_accuracy_without_o: over the words whose true tag is not O; None where there is none.
        span_precision, span_recall, span_f1: of whole spans, type and both ends right, all types together (conlleval).
        sentence_accuracy: fraction of the sentences without a wrong tag. The "exact match" that the pNLP-Mixer paper
            reports is compared with this: its text names the accuracy over words, but its figures rule that out.
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
            f"sentence accuracy {self.sentence_accuracy:.4f}, {self.n_words} words in {self.n} sentences"
        )


@dataclass(frozen=True)
class Score:
    """How right the answers of one model are, for a comparison with others.

    Attributes:
        numbers: the task's headline metric and those beside it.
        hits: (R,) what each row adds to the headline: 1 for a right answer, of a tagger its right words; of numbers
            the error.
        sizes: (R,) answers that each row asks for: 1, of a tagger its words. The headline is sum(hits) / sum(sizes).
    """

    numbers: dict[str, float]
    hits: npt.NDArray[np.float64]
    sizes: npt.NDArray[np.float64]


def format_table(metrics: Metrics) -> str:
    """The summary and the table of classes (if any) as plain text columns; of many classes the 40 of lowest F1."""
    rows = list(metrics.per_class)
    if not rows:
        return metrics.summary()
    remark = ""
    if len(rows) > TABLE_ROWS:
        # The worst are what one looks for; a class without a case in the data tells nothing and comes last.
        order = sorted(range(len(rows)), key=lambda index: (rows[index].support == 0, rows[index].f1, index))
        shown = sorted(order[:TABLE_ROWS])
        remark = f"({TABLE_ROWS} of {len(rows)} classes: those of lowest F1; {len(rows) - TABLE_ROWS} are left out)"
        rows = [rows[index] for index in shown]
    names = [_printable(row.label) for row in rows]
    width = max(len("class"), *(_columns(name) for name in names))
    lines = [metrics.summary(), "", f"{'class':<{width}}  precision  recall      F1  support"]
    for name, row in zip(names, rows, strict=True):
        pad = " " * (width - _columns(name))
        lines.append(f"{name}{pad}  {row.precision:9.4f}  {row.recall:6.4f}  {row.f1:6.4f}  {row.support:7d}")
    return "\n".join([*lines, remark] if remark else lines)


def _or_dash(value: float | None) -> str:
    return "-" if value is None else f"{value:.4f}"


def _printable(name: str) -> str:
    """A label that cannot move a terminal's cursor, cut to `_NAME_COLUMNS` columns."""
    name = printable(name)
    if _columns(name) <= _NAME_COLUMNS:
        return name
    while _columns(name) >= _NAME_COLUMNS:
        name = name[:-1]
    return name + "…"


def _columns(name: str) -> int:
    """How many columns of a terminal a name takes: East Asian wide characters two, combining marks none."""
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in name)
