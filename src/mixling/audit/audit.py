"""Audit labeled data: one record of everything that a person should look at."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from mixling.audit.audits import Audit, LabelAudit, LabelsAudit
from mixling.audit.folds import out_of_fold
from mixling.audit.label_errors import (
    likely_errors,
    likely_mark_errors,
    mark_confidence,
    planted_errors,
    planted_mark_errors,
    self_confidence,
)
from mixling.audit.tags import tags_audit
from mixling.data.dataset import Dataset
from mixling.data.label_remarks import conflicting, label_remarks
from mixling.data.near_duplicates import count_near_duplicates
from mixling.errors import ConfigError, DataError
from mixling.metrics.reports import classification_report, multilabel_report
from mixling.tasks import task_type
from mixling.tasks.classification import Classification
from mixling.tasks.multi_label import MultiLabel
from mixling.tasks.tagging import Tagging

_EFFORT = 10  # times what training spends on near-duplicates


def audit(
    examples: Dataset,
    *,
    task: str = Classification.name,
    test: Dataset | None = None,
    folds: int = 5,
    epochs: int | None = None,
    features: Sequence[str] = (),
    seed: int = 0,
    log: Callable[[str], None] = lambda message: None,
) -> Audit:
    """Audit examples with one label or any number of labels for a text, or with a tag for each word.

    Args:
        task: "classification", "multi_label" or "tagging".
        test: another split, which is searched for near-duplicates of the examples.
        folds: models to train, each on all parts but one.
        epochs: of each training; None: a third of `mixling train`'s.
        features: the columns beside the texts, NAME or NAME:KIND, which the models read.
        log: receives a line for each fold.

    Raises:
        ConfigError: there are fewer than 2 folds, or the task has no labels of texts.
        DataError: the examples have no labels that can be learned, or are too few.
    """
    if folds < 2:
        raise ConfigError(f"folds: got {folds}; at least 2 are needed, to train on one part and predict another")
    if task not in AUDITED:
        raise ConfigError(f"task: got {task!r}; allowed: {', '.join(AUDITED)}")
    if examples.schema.targets != AUDITED[task]:
        needed = "one label" if task == Classification.name else "a list of labels"
        raise DataError(f"an audit needs {needed} per text", path=examples.where(0)[0] if len(examples) else None)
    kind = task_type(task)
    learned = kind(kind.label_set(examples))  # refuses fewer than two classes
    names = learned.labels.names
    probabilities, answers = out_of_fold(
        learned, examples, folds=folds, seed=seed, epochs=epochs, features=features, log=log
    )
    of_sentences: Any = learned.targets(examples.targets) if isinstance(learned, Tagging) else []
    if of_sentences:
        given = np.array([np.bincount(tags, minlength=len(names)) > 0 for tags in of_sentences], np.int64)
    else:
        given = np.asarray(learned.targets(examples.targets))
    marks = np.eye(len(names), dtype=np.int64)[given] if given.ndim == 1 else given
    leaks, complete = ((), True) if test is None else leaked(examples, test, seed=seed)
    counts = marks.sum(0).tolist()
    common: dict[str, Any] = {
        "examples": examples,
        "names": names,
        "remarks": tuple(label_remarks(examples, several=task == MultiLabel.name)),
        "conflicts": conflicting(examples),
        "test": test,
        "leaks": leaks,
        "leaks_complete": complete,
        "metric": learned.metric,
        "baseline": learned.score(examples.targets, answers).numbers[learned.metric],
        "rare": tuple((name, count) for name, count in zip(names, counts, strict=True) if 0 < count < 2 * folds),
    }
    # A label of one text alone is unknown to a model that was trained without it.
    rows, columns = np.nonzero(marks)
    text_ids = np.unique(examples.text_hashes(), return_inverse=True)[1][rows]
    distinct = np.unique(np.stack([text_ids, columns]), axis=1)
    learnable = np.bincount(distinct[1], minlength=marks.shape[1]) > 1
    if isinstance(learned, Tagging):
        return tags_audit(learned, of_sentences, probabilities, learnable, common)
    common |= {"given": given, "probabilities": probabilities}
    if given.ndim == 1:
        return LabelAudit(
            quality=self_confidence(given, probabilities),
            errors=likely_errors(given, probabilities) & learnable[given],
            planted=planted_errors(given, probabilities),
            metrics=classification_report(learned.labels, given, probabilities),
            **common,
        )
    confidence = mark_confidence(given, probabilities)
    errors: npt.NDArray[np.bool_] = likely_mark_errors(given, probabilities) & learnable
    doubted = np.where(errors, confidence, 1.0).min(1)
    return LabelsAudit(
        quality=np.where(errors.any(1), doubted, confidence.min(1)),
        errors=np.any(errors, axis=1),
        planted=planted_mark_errors(given, probabilities),
        metrics=multilabel_report(learned.labels, given, probabilities),
        confidence=confidence,
        label_errors=errors,
        **common,
    )


AUDITED = {Classification.name: "label", MultiLabel.name: "labels", Tagging.name: "labels"}
"""The tasks whose data can be audited, with the kind of targets."""


def leaked(examples: Dataset, test: Dataset, *, seed: int) -> tuple[tuple[tuple[int, int], ...], bool]:
    """Return which texts of another split are equal or nearly equal to examples, and whether all were compared."""
    first = {value: index for index, value in reversed(list(enumerate(examples.text_hashes().tolist())))}
    equal = {index: first[value] for index, value in enumerate(test.text_hashes().tolist()) if value in first}
    near = count_near_duplicates(examples, test, seed=seed, effort=_EFFORT)
    return tuple(sorted({**dict(near.pairs), **equal}.items())), near.complete
