"""Metrics from predictions, with NumPy alone, so that a base install can evaluate a saved model.

The results equal scikit-learn's and seqeval's; tests compare them. B is the number of texts, C the
number of labels.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from mixling.answers.conformal import ConformalSets
from mixling.answers.decision import DecisionRule, answers_by_level, targets_by_level
from mixling.answers.labels import LabelSet, iob_spans
from mixling.errors import DataError
from mixling.metrics.base import ClassificationMetrics, ClassScore, LevelScore, MultiLabelMetrics, TaggingMetrics
from mixling.metrics.ranking import roc_area
from mixling.metrics.reliability import calibration_error, reliability

MAX_TABLE_LABELS = 1_000  # up to this number have all their scores listed, and a confusion matrix


def classification_report(
    labels: LabelSet,
    targets: np.ndarray,
    probabilities: np.ndarray | Iterable[np.ndarray],
    *,
    unseen: int = 0,
    threshold: float | None = None,
    conformal: ConformalSets | None = None,
    rule: DecisionRule | None = None,
    aimed: int | None = None,
    tables: bool = True,
) -> ClassificationMetrics:
    """Score probabilities (B, C) against target ids (B,).

    Args:
        probabilities: also as parts of their rows, in their order; one at a time is in memory with more than
            `MAX_TABLE_LABELS` labels.
        unseen: number of labels at the end that the model does not have; the log-loss leaves out texts with them.
        threshold: top probability below which texts are not answered; None: all are.
        conformal: makes sets of labels; None: there are none.
        rule: which label is the answer; None: the most probable one.
        aimed: the id of a label whose F1 is reported; None: none.
        tables: compute the scores of each class and the (C, C) confusion matrix; of more than `MAX_TABLE_LABELS`
            there is no matrix, and classes that no text has or gets are left out.

    Raises:
        DataError: there is no text.
    """
    _require(len(targets))
    whole: list[np.ndarray] = []
    parts: list[tuple[np.ndarray, ...]] = []
    done = 0
    for part in [probabilities] if isinstance(probabilities, np.ndarray) else probabilities:
        assert part.shape[1] == len(labels), part.shape
        part = part / part.sum(1, keepdims=True, dtype=np.float64)  # float16 sums to 1 too roughly for log_loss
        parts.append(_read(part, targets[done : done + len(part)], conformal, rule))
        done += len(part)
        if len(labels) <= MAX_TABLE_LABELS:
            whole.append(part)
    assert done == len(targets), (done, len(targets))
    steps, certainty, most_probable, top, given, covered, set_sizes = map(np.concatenate, zip(*parts, strict=True))
    predictions = steps[:, -1]
    right = targets == predictions
    scores, met, values = _class_metrics(targets, predictions, len(labels), aimed)
    confusion = np.zeros((len(labels), len(labels)) if tables and len(labels) <= MAX_TABLE_LABELS else (0, 0), np.int64)
    if len(confusion):
        np.add.at(confusion, (targets, predictions), 1)
    bins = reliability(right, top)
    area = None
    if whole:
        first = 1 if len(labels) == 2 else 0
        area = _roc_auc(targets[:, None] == np.arange(first, len(labels)), np.concatenate(whole)[:, first:])
    depth = (certainty >= (threshold or 0)).sum(1)
    answered = depth > 0
    right_answer = (steps == targets_by_level(targets, rule))[np.arange(len(targets)), depth - 1]
    if unseen and (seen := targets < len(labels) - unseen).any():
        given = given[seen]
    least = np.finfo(np.float64).eps  # as in scikit-learn: a probability of 0 must not make it infinite
    return ClassificationMetrics(
        n=len(targets),
        coverage=None if threshold is None else float(answered.mean()),
        accuracy_of_answered=float(right_answer[answered].mean()) if threshold is not None and answered.any() else None,
        set_coverage=None if conformal is None else float(covered.mean()),
        set_size=None if conformal is None else float(set_sizes.mean()),
        **values,
        mean_cost=None if rule is None or not rule.costs else float(np.array(rule.costs)[targets, predictions].mean()),
        log_loss=float(-np.log(given.clip(least, 1 - least)).mean()),
        roc_auc=area,
        calibration_error=calibration_error(bins),
        reliability=bins if tables else (),
        per_class=_class_scores(labels.names, scores, met) if tables else (),
        confusion=tuple(tuple(row) for row in confusion.tolist()),
        levels=() if rule is None or not rule.levels else _level_scores(rule, targets, steps, most_probable, depth),
    )


def _read(
    probabilities: np.ndarray, targets: np.ndarray, conformal: ConformalSets | None, rule: DecisionRule | None
) -> tuple[np.ndarray, ...]:
    """Return for each row the answers and their probabilities by level, the most probable label and its probability,
    the target's probability, whether the conformal set has the target, and the size of the set."""
    rows = np.arange(len(targets))
    steps, certainty = answers_by_level(probabilities, rule)
    sets = probabilities[:, :0] > 0 if conformal is None else conformal.members(probabilities)
    covered = np.zeros(len(rows), bool) if conformal is None else sets[rows, targets]
    most_probable = probabilities.argmax(1)
    top = probabilities[rows, most_probable]
    return steps, certainty, most_probable, top, probabilities[rows, targets], covered, sets.sum(1)


def _level_scores(
    rule: DecisionRule, targets: np.ndarray, steps: np.ndarray, most_probable: np.ndarray, depth: np.ndarray
) -> tuple[LevelScore, ...]:
    """Return the scores of each level.

    Args:
        targets, most_probable: ids (B,) of labels.
        steps: (B, K) answers of the levels.
        depth: (B,) the number of levels that are answered.
    """
    scores = []
    for level, nodes in enumerate(rule.tree.nodes):
        truth = nodes[targets]
        count = len(rule.tree.parts[level])
        found, flat = (
            answer_metrics(truth, answers, count, None) for answers in (steps[:, level], nodes[most_probable])
        )
        reached = depth > level
        right = (truth == steps[:, level])[reached]
        scores.append(
            LevelScore(
                labels=count,
                accuracy=found["accuracy"],
                macro_f1=found["macro_f1"],
                flat_accuracy=flat["accuracy"],
                flat_macro_f1=flat["macro_f1"],
                coverage=float(reached.mean()),
                accuracy_of_answered=float(right.mean()) if len(right) else None,
            )
        )
    return tuple(scores)


def answer_metrics(targets: np.ndarray, answers: np.ndarray, count: int, aimed: int | None) -> dict[str, Any]:
    """Return the metrics of a classification that depend on answers (B,) alone, of targets (B,) among `count` labels.

    Args:
        aimed: the id of a label whose F1 is reported; None: none.
    """
    return _class_metrics(targets, answers, count, aimed)[-1]


def _class_metrics(
    targets: np.ndarray, answers: np.ndarray, count: int, aimed: int | None
) -> tuple[np.ndarray, np.ndarray, dict[str, Any]]:
    """Return precision, recall, F1 and support (C, 4) of the classes, which occur (C,), and `answer_metrics`."""
    right = targets == answers
    hits, predicted, true = (np.bincount(ids, minlength=count) for ids in (targets[right], answers, targets))
    scores = _scores(hits, predicted, true)
    met = predicted + true > 0
    return (
        scores,
        met,
        {
            "accuracy": float(right.mean()),
            "macro_f1": float(scores[met, 2].mean()),
            "balanced_accuracy": float(scores[true > 0, 1].mean()),
            "matthews": _matthews(hits, predicted, true),
            "label_f1": None if aimed is None else float(scores[aimed, 2]),
        },
    )


def _matthews(hits: np.ndarray, predicted: np.ndarray, true: np.ndarray) -> float:
    """Return the correlation of classes, given the numbers (C,) of right answers, of answers and of texts of each."""
    hits, predicted, true = (part.astype(np.float64) for part in (hits, predicted, true))
    number = true.sum()
    spread = (number**2 - predicted @ predicted) * (number**2 - true @ true)
    return float((hits.sum() * number - predicted @ true) / np.sqrt(spread)) if spread > 0 else 0.0


def multilabel_report(
    labels: LabelSet,
    targets: np.ndarray,
    probabilities: np.ndarray,
    *,
    thresholds: np.ndarray | float = 0.5,
    tables: bool = True,
) -> MultiLabelMetrics:
    """Score probabilities (B, C) against targets (B, C) of 0 and 1; labels are predicted from `thresholds` (C,) on.

    Args:
        tables: compute the scores of each class.

    Raises:
        DataError: there is no text.
    """
    _require(len(targets))
    assert probabilities.shape == targets.shape == (len(targets), len(labels)), targets.shape
    truth = targets.astype(bool)
    predictions = probabilities >= thresholds
    scores, met, values = _label_metrics(truth, predictions)
    bins = reliability(truth.ravel(), probabilities.ravel())
    return MultiLabelMetrics(
        n=len(truth),
        **values,
        roc_auc=_roc_auc(truth, probabilities),
        calibration_error=calibration_error(bins),
        reliability=bins if tables else (),
        per_class=_class_scores(labels.names, scores, met) if tables else (),
    )


def set_metrics(truth: np.ndarray, answers: np.ndarray) -> dict[str, float]:
    """Return the metrics of sets of labels that depend on answers (B, C) alone, of targets (B, C), as booleans."""
    return _label_metrics(truth, answers)[-1]


def _label_metrics(truth: np.ndarray, answers: np.ndarray) -> tuple[np.ndarray, np.ndarray, dict[str, float]]:
    """Return precision, recall, F1 and support (C, 4) of the labels, which occur (C,), and `set_metrics`."""
    hits, predicted, true = (truth & answers).sum(0), answers.sum(0), truth.sum(0)
    scores = _scores(hits, predicted, true)
    met = predicted + true > 0
    sizes = truth.sum(1) + answers.sum(1)
    shared = 2 * (truth & answers).sum(1)
    return (
        scores,
        met,
        {
            "subset_accuracy": float((truth == answers).all(1).mean()),
            "micro_f1": float(_ratio(2 * hits.sum(), predicted.sum() + true.sum())),
            "macro_f1": float(scores[met, 2].mean()) if met.any() else 0.0,
            "sample_f1": float(np.where(sizes > 0, shared / np.maximum(sizes, 1), 1.0).mean()),
        },
    )


def tagging_report(
    labels: LabelSet,
    targets: Sequence[np.ndarray],
    predictions: Sequence[np.ndarray],
    *,
    confidences: Sequence[np.ndarray] | None = None,
    tables: bool = True,
) -> TaggingMetrics:
    """Score predicted tag ids against true ones, one array (number of words,) per sentence.

    Args:
        confidences: the probabilities of the predicted tags of each sentence, NaN for words without one; None: unknown.
        tables: compute the scores of each span type.

    Raises:
        DataError: there is no word.
    """
    assert list(map(len, targets)) == list(map(len, predictions)), "one prediction for each word"
    n_words = sum(map(len, targets))
    _require(n_words)
    true_tags = [[labels.names[tag] for tag in sentence.tolist()] for sentence in targets]
    predicted_tags = [[labels.names[tag] for tag in sentence.tolist()] for sentence in predictions]
    hits = Counter[str]()
    predicted = Counter[str]()
    true = Counter[str]()
    for gold, got in zip(true_tags, predicted_tags, strict=True):
        gold_spans = iob_spans(gold)
        got_spans = iob_spans(got)
        true.update(kind for kind, _, _ in gold_spans)
        predicted.update(kind for kind, _, _ in got_spans)
        hits.update(kind for kind, _, _ in set(gold_spans) & set(got_spans))
    types = sorted({name[2:] for name in labels.names[1:]})
    counts = np.array([[counter[kind] for kind in types] for counter in (hits, predicted, true)])
    precision, recall, f1, _ = _scores(*counts.sum(1, keepdims=True))[0].tolist()
    right = np.concatenate([true == predicted for true, predicted in zip(targets, predictions, strict=True)])
    inside = np.concatenate(targets) != 0  # the id of O
    probabilities = np.full(n_words, np.nan) if confidences is None else np.concatenate(confidences)
    read = ~np.isnan(probabilities)
    bins = reliability(right[read], probabilities[read])
    return TaggingMetrics(
        n=len(targets),
        n_words=n_words,
        word_accuracy=float(right.mean()),
        word_accuracy_without_o=float(right[inside].mean()) if inside.any() else None,
        span_precision=precision,
        span_recall=recall,
        span_f1=f1,
        sentence_accuracy=float(np.mean([true == got for true, got in zip(true_tags, predicted_tags, strict=True)])),
        calibration_error=calibration_error(bins) if read.any() else None,
        reliability=bins if tables and read.any() else (),
        per_class=_class_scores(types, _scores(*counts), np.ones(len(types), bool)) if tables else (),
    )


def tag_metrics(
    labels: LabelSet, targets: Sequence[np.ndarray], answers: Sequence[np.ndarray]
) -> Callable[[np.ndarray], dict[str, float]]:
    """Return what gives, for the indices of some sentences, the metrics of their tags that depend on answers alone."""
    counts = np.zeros((len(targets), 6))  # words, right ones; spans that are right, answered, true; right sentences
    for row, gold, got in zip(counts, targets, answers, strict=True):
        true, found = (set(iob_spans([labels.names[tag] for tag in part.tolist()])) for part in (gold, got))
        right = int((gold == got).sum())
        row[:] = len(gold), right, len(true & found), len(found), len(true), right == len(gold)

    def metrics(rows: np.ndarray) -> dict[str, float]:
        words, right, hits, predicted, true, whole = counts[rows].sum(0).tolist()
        return {
            "word_accuracy": right / words,
            "span_f1": 2 * hits / max(predicted + true, 1),
            "sentence_accuracy": whole / len(rows),
        }

    return metrics


def _require(n: int) -> None:
    if not n:
        raise DataError("there is nothing to evaluate: got no rows; give at least one labeled row")


def _roc_auc(hits: np.ndarray, scores: np.ndarray) -> float | None:
    """Return the mean area over the columns of (B, C) whose `hits` are neither all true nor all false."""
    columns = np.flatnonzero(hits.any(0) & ~hits.all(0))
    areas = [roc_area(scores[hits[:, i], i], scores[~hits[:, i], i]) for i in columns]
    return float(np.mean(areas)) if areas else None


def _scores(hits: np.ndarray, predicted: np.ndarray, true: np.ndarray) -> np.ndarray:
    """Return precision, recall, F1 and support (C, 4) from counts (C,)."""
    f1 = _ratio(2 * hits, predicted + true)
    return np.stack([_ratio(hits, predicted), _ratio(hits, true), f1, true], axis=1)


def _ratio(part: np.ndarray, whole: np.ndarray) -> np.ndarray:
    """Return part / whole, or 0 where whole is 0."""
    ratios: np.ndarray = part / np.maximum(whole, 1)
    return ratios


def _class_scores(names: Sequence[str], scores: np.ndarray, met: np.ndarray) -> tuple[ClassScore, ...]:
    """Return `ClassScore`s from rows (precision, recall, F1, support) (C, 4), of very many those that are `met`."""
    shown = np.flatnonzero(met) if len(names) > MAX_TABLE_LABELS else np.arange(len(names))
    return tuple(
        ClassScore(names[i], precision, recall, f1, int(support))
        for i, (precision, recall, f1, support) in zip(shown.tolist(), scores[shown].tolist(), strict=True)
    )
