"""How good predictions are; scikit-learn and seqeval, which do part of the computing, are imported for a report.

Scores that divide by zero are 0 (a class never predicted has precision 0); scores that do not exist at all are None.
B is the number of texts, C of labels.
"""

from __future__ import annotations

import unicodedata
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from mixling.errors import DataError, UserError
from mixling.text.labels import LabelSet, iob_spans

CALIBRATION_BINS = 15
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
        tables: dict[str, Any] = {"per_class": [asdict(row) for row in self.per_class]}
        if isinstance(self, ClassificationMetrics):
            tables["confusion"] = [list(row) for row in self.confusion]
        return vars(self) | tables

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
        log_loss: in nats.
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
        word_accuracy: over all words, those tagged O included (the "exact match" of the pNLP-Mixer paper).
        word_accuracy_without_o: over the words whose true tag is not O; None where there is none.
        span_precision, span_recall, span_f1: of whole spans, type and both ends right, all types together (conlleval).
        sentence_accuracy: the part of the sentences without a wrong tag.
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


def classification_report(
    labels: LabelSet, targets: np.ndarray, probabilities: np.ndarray, *, tables: bool = True
) -> ClassificationMetrics:
    """Score probabilities (B, C) against target ids (B,).

    Args:
        tables: with the scores of each class and the confusion matrix, which take C^2 numbers.

    Raises:
        DataError: there is no text.
        UserError: scikit-learn is not installed.
    """
    _require(len(targets))
    sklearn = _sklearn()
    classes = np.arange(len(labels))
    assert labels.kind == "single", labels.kind
    assert probabilities.shape == (len(targets), len(labels)), probabilities.shape
    probabilities = probabilities.astype(np.float64)
    probabilities /= probabilities.sum(1, keepdims=True)  # half precision adds up to 1 less well than log_loss demands
    predictions = probabilities.argmax(1)
    scores = np.stack(
        sklearn.precision_recall_fscore_support(targets, predictions, labels=classes, zero_division=0), axis=1
    )
    confusion = sklearn.confusion_matrix(targets, predictions, labels=classes).tolist() if tables else ()
    met = np.isin(classes, targets) | np.isin(classes, predictions)
    hits = targets[:, None] == classes
    given = probabilities[np.arange(len(targets)), targets]
    least = np.finfo(np.float64).eps  # as scikit-learn's, so that one wrong certainty does not make it infinite
    return ClassificationMetrics(
        n=len(targets),
        accuracy=float(sklearn.accuracy_score(targets, predictions)),
        macro_f1=float(scores[met, 2].mean()),
        log_loss=float(-np.log(given.clip(least, 1 - least)).mean()),
        roc_auc=_roc_auc(hits[:, 1:], probabilities[:, 1:]) if len(labels) == 2 else _roc_auc(hits, probabilities),
        calibration_error=_calibration_error(targets == predictions, probabilities.max(1)),
        per_class=_class_scores(labels.names, scores) if tables else (),
        confusion=tuple(tuple(row) for row in confusion),
    )


def multilabel_report(
    labels: LabelSet,
    targets: np.ndarray,
    probabilities: np.ndarray,
    *,
    threshold: float = 0.5,
    tables: bool = True,
) -> MultiLabelMetrics:
    """Score probabilities (B, C) against targets (B, C) of 0 and 1; a label is predicted from `threshold` on.

    Args:
        tables: with the scores of each class.

    Raises:
        DataError: there is no text.
    """
    _require(len(targets))
    assert labels.kind == "multi", labels.kind
    assert probabilities.shape == targets.shape == (len(targets), len(labels)), targets.shape
    truth, predictions = targets.astype(bool), probabilities >= threshold
    hits, predicted, true = (truth & predictions).sum(0), predictions.sum(0), truth.sum(0)
    f1 = _ratio(2 * hits, predicted + true)
    met = predicted + true > 0
    scores = np.stack([_ratio(hits, predicted), _ratio(hits, true), f1, true], axis=1)
    return MultiLabelMetrics(
        n=len(truth),
        subset_accuracy=float((truth == predictions).all(1).mean()),
        micro_f1=float(_ratio(2 * hits.sum(), predicted.sum() + true.sum())),
        macro_f1=float(f1[met].mean()) if met.any() else 0.0,
        roc_auc=_roc_auc(truth, probabilities),
        per_class=_class_scores(labels.names, scores) if tables else (),
    )


def tagging_report(
    labels: LabelSet, targets: Sequence[np.ndarray], predictions: Sequence[np.ndarray], *, tables: bool = True
) -> TaggingMetrics:
    """Score predicted tag ids against true ones: one array (words of the sentence,) for each sentence.

    Args:
        tables: with the scores of each type of span.

    Raises:
        DataError: there is no word.
        UserError: seqeval is not installed.
    """
    assert labels.kind == "iob", labels.kind
    assert [len(tags) for tags in targets] == [len(tags) for tags in predictions], "one prediction for each word"
    n_words = sum(len(tags) for tags in targets)
    _require(n_words)
    try:
        from seqeval.metrics.sequence_labeling import precision_recall_fscore_support
    except ImportError:
        raise UserError('metrics need seqeval; install it by pip install "mixling[train]"') from None
    true_tags = [[labels.names[tag] for tag in sentence.tolist()] for sentence in targets]
    predicted_tags = [[labels.names[tag] for tag in sentence.tolist()] for sentence in predictions]
    precision, recall, f1, _ = precision_recall_fscore_support(
        true_tags, predicted_tags, average="micro", zero_division=0
    )
    by_type: dict[str, np.ndarray] = {}
    types: list[str] = []
    if tables:
        # seqeval names no types: its rows are the types found, sorted; a type found nowhere has a row of zeros.
        found = sorted({kind for tags in true_tags + predicted_tags for kind, _, _ in iob_spans(tags)})
        rows = precision_recall_fscore_support(true_tags, predicted_tags, average=None, zero_division=0)
        by_type = dict(zip(found, np.stack(rows, axis=1), strict=True))
        types = sorted({name[2:] for name in labels.names[1:]})
    right = np.concatenate([true == predicted for true, predicted in zip(targets, predictions, strict=True)])
    inside = np.concatenate(targets) != 0  # the id of O
    return TaggingMetrics(
        n=len(targets),
        n_words=n_words,
        word_accuracy=float(right.mean()),
        word_accuracy_without_o=float(right[inside].mean()) if inside.any() else None,
        span_precision=float(precision),
        span_recall=float(recall),
        span_f1=float(f1),
        sentence_accuracy=float(np.mean([true == got for true, got in zip(true_tags, predicted_tags, strict=True)])),
        per_class=_class_scores(types, np.array([by_type.get(kind, np.zeros(4)) for kind in types])),
    )


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


def _sklearn() -> Any:
    try:
        import sklearn.metrics
    except ImportError:
        raise UserError('metrics need scikit-learn; install it by pip install "mixling[train]"') from None
    return sklearn.metrics


def _require(n: int) -> None:
    if not n:
        raise DataError("there is nothing to evaluate: got no rows; give at least one labelled row")


def _roc_auc(hits: np.ndarray, scores: np.ndarray) -> float | None:
    """The mean over the columns of (B, C) whose `hits` are neither all true nor all false.

    Of a column the area is the share of the pairs of a hit and a miss where the hit has the higher score, ties half.
    """
    areas = []
    for column in np.flatnonzero(hits.any(0) & ~hits.all(0)):
        hit, score = hits[:, column], scores[:, column]
        among, misses = score[hit], np.sort(score[~hit])
        pairs = np.searchsorted(misses, among, "left") + np.searchsorted(misses, among, "right")
        areas.append(pairs.sum() / (2 * len(among) * len(misses)))
    return float(np.mean(areas)) if areas else None


def _ratio(part: np.ndarray, whole: np.ndarray) -> np.ndarray:
    """part / whole; 0 where whole is 0."""
    return part / np.maximum(whole, 1)


def _calibration_error(right: np.ndarray, confidence: np.ndarray) -> float:
    bins = np.minimum((confidence * CALIBRATION_BINS).astype(int), CALIBRATION_BINS - 1)
    gaps = np.bincount(
        bins, weights=right - confidence, minlength=CALIBRATION_BINS
    )  # n_b * (accuracy_b - confidence_b)
    return float(np.abs(gaps).sum() / len(right))


def _class_scores(names: Sequence[str], scores: np.ndarray) -> tuple[ClassScore, ...]:
    """Rows (precision, recall, F1, support) (C, 4) with their names."""
    return tuple(
        ClassScore(name, precision, recall, f1, int(support))
        for name, (precision, recall, f1, support) in zip(names, scores.tolist(), strict=True)
    )


def _or_dash(value: float | None) -> str:
    return "-" if value is None else f"{value:.4f}"


def _printable(name: str) -> str:
    """A label that cannot move a terminal's cursor, cut to `_NAME_COLUMNS` columns."""
    name = "".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in name)
    if _columns(name) <= _NAME_COLUMNS:
        return name
    while _columns(name) >= _NAME_COLUMNS:
        name = name[:-1]
    return name + "…"


def _columns(name: str) -> int:
    """How many columns of a terminal a name takes: East Asian wide characters two, combining marks none."""
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in name)
