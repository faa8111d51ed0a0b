"""Logits and targets -> metrics; knows no torch, so that a saved model is evaluated as it is served."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mixling.tasks.metrics import Metrics
from mixling.tasks.reports import classification_report, multilabel_report, tagging_report
from mixling.text.labels import LabelSet, Targets


def evaluate(labels: LabelSet, logits: Sequence[np.ndarray], targets: Targets, *, tables: bool = True) -> Metrics:
    """Metrics of the logits of each text, (C,) or for taggers (N, C), in the order of the targets.

    Words beyond a tagger's length have no logits and count as tagged O, since that is what a user gets.

    Args:
        tables: with the scores of each class and the confusion matrix; the single numbers take much less time.
    """
    if labels.kind == "iob":
        outside = labels.id("O")
        predictions = []
        for scores, gold in zip(logits, targets, strict=True):
            tags = np.full(len(gold), outside, np.int64)
            tags[: len(scores)] = np.asarray(scores)[: len(gold)].argmax(-1)
            predictions.append(tags)
        return tagging_report(labels, list(targets), predictions, tables=tables)
    probabilities = labels.probabilities(np.stack(list(logits)))
    report = multilabel_report if labels.kind == "multi" else classification_report
    return report(labels, np.asarray(targets), probabilities, tables=tables)
