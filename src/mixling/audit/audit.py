"""Audit labeled data: one record of everything that a person should look at."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from mixling.audit.folds import out_of_fold
from mixling.audit.label_errors import likely_errors, self_confidence
from mixling.data.dataset import Dataset
from mixling.data.near_duplicates import count_near_duplicates
from mixling.errors import ConfigError, DataError
from mixling.metrics.base import ClassificationMetrics
from mixling.metrics.reports import classification_report
from mixling.tasks.classification import Classification
from mixling.text.clean import normalize
from mixling.text.encoder import Text
from mixling.text.words import split_words

_CONFUSED = 20  # pairs of labels that are listed
_EFFORT = 10  # times what training spends on near-duplicates


@dataclass(frozen=True, kw_only=True)
class Audit:
    """What was found in n examples with C labels.

    Attributes:
        examples: the audited examples.
        names: the labels.
        given: (n,) ids of the given labels.
        probabilities: (n, C) of models that did not see the example.
        quality: (n,) the probability of the given label; the lowest are most likely wrong.
        errors: (n,) likely label errors; never of a label that only one text has, as no model could learn it.
        conflicts: indices of examples with equal words and different labels, by text.
        test: the other split, if there is one.
        leaks: its equal and nearly equal texts: (index in test, index in examples).
        leaks_complete: whether all texts were compared; otherwise there may be more.
        metrics: of the models on the examples that they did not see, by the given labels.
        baseline_accuracy: of TF-IDF and logistic regression, as those metrics.
        rare: labels with fewer examples than twice the folds, and their numbers.
        confused: (given label, predicted label, examples), the most frequent first.
    """

    examples: Dataset
    names: tuple[str, ...]
    given: npt.NDArray[np.int64]
    probabilities: npt.NDArray[np.float64]
    quality: npt.NDArray[np.float64]
    errors: npt.NDArray[np.bool_]
    conflicts: tuple[tuple[int, ...], ...]
    test: Dataset | None
    leaks: tuple[tuple[int, int], ...]
    leaks_complete: bool
    metrics: ClassificationMetrics
    baseline_accuracy: float
    rare: tuple[tuple[str, int], ...]
    confused: tuple[tuple[str, str, int], ...]

    @property
    def suggested(self) -> list[str]:
        """The most probable label of each example."""
        return [self.names[index] for index in self.probabilities.argmax(1)]

    def ranked(self) -> npt.NDArray[np.int64]:
        """Return the indices of likely errors, the most likely first."""
        found = np.flatnonzero(self.errors)
        return found[np.argsort(self.quality[found], kind="stable")]

    def to_dict(self) -> dict[str, Any]:
        """Return the numbers as JSON values."""
        return {
            "examples": len(self.examples),
            "labels": len(self.names),
            "likely_errors": int(self.errors.sum()),
            "conflicting_texts": len(self.conflicts),
            "conflicting_examples": sum(map(len, self.conflicts)),
            "leaks": None if self.test is None else len(self.leaks),
            "leaks_complete": self.leaks_complete,
            "accuracy": self.metrics.accuracy,
            "macro_f1": self.metrics.macro_f1,
            "baseline_accuracy": self.baseline_accuracy,
            "rare": dict(self.rare),
            "confused": [list(item) for item in self.confused],
            "per_class": self.metrics.to_dict()["per_class"],
        }


def audit(
    examples: Dataset,
    *,
    test: Dataset | None = None,
    folds: int = 5,
    epochs: int | None = None,
    seed: int = 0,
    log: Callable[[str], None] = lambda message: None,
) -> Audit:
    """Audit examples of classification.

    Args:
        test: another split, which is searched for near-duplicates of the examples.
        folds: models to train, each on all but one of so many parts.
        epochs: of each training; None: a third of those of `mixling train`.
        log: receives a line for each fold.

    Raises:
        ConfigError: there are fewer than 2 folds.
        DataError: the examples have no labels that can be learned, or are too few.
    """
    if folds < 2:
        raise ConfigError(f"folds: got {folds}; at least 2 are needed, to train on one part and predict another")
    if examples.class_ids() is None:
        raise DataError("an audit needs one label per text", path=examples.where(0)[0] if len(examples) else None)
    labels = Classification.label_set(examples)
    Classification(labels)  # refuses fewer than two labels
    probabilities, answers = out_of_fold(
        examples, labels.names, folds=folds, seed=seed, epochs=epochs, log=log
    )  # fmt: skip
    given = labels.ids(str(target) for target in examples.targets)
    texts_of_label = Counter(zip(given.tolist(), examples.text_hashes().tolist(), strict=True))
    distinct = np.bincount([label for label, _ in texts_of_label], minlength=len(labels))
    metrics = classification_report(labels, given, probabilities)
    counts = np.bincount(given, minlength=len(labels)).tolist()
    confusion = np.array(metrics.confusion)
    np.fill_diagonal(confusion, 0)
    order = np.argsort(-confusion, axis=None, kind="stable")[:_CONFUSED]
    pairs = [(*divmod(int(index), len(labels)), int(confusion.flat[index])) for index in order]
    leaks, complete = ((), True) if test is None else leaked(examples, test, seed=seed)
    return Audit(
        examples=examples,
        names=labels.names,
        given=given,
        probabilities=probabilities,
        quality=self_confidence(given, probabilities),
        errors=likely_errors(given, probabilities) & (distinct[given] > 1),
        conflicts=conflicting(examples),
        test=test,
        leaks=leaks,
        leaks_complete=complete,
        metrics=metrics,
        baseline_accuracy=float(np.mean([a == b for a, b in zip(answers, examples.targets, strict=True)])),
        rare=tuple((name, count) for name, count in zip(labels.names, counts, strict=True) if count < 2 * folds),
        confused=tuple((labels.names[a], labels.names[b], count) for a, b, count in pairs if count),
    )


def leaked(examples: Dataset, test: Dataset, *, seed: int) -> tuple[tuple[tuple[int, int], ...], bool]:
    """Return which texts of another split are equal or nearly equal to examples, and whether all were compared."""
    first = {value: index for index, value in reversed(list(enumerate(examples.text_hashes().tolist())))}
    equal = {index: first[value] for index, value in enumerate(test.text_hashes().tolist()) if value in first}
    near = count_near_duplicates(examples, test, seed=seed, effort=_EFFORT)
    return tuple(sorted({**dict(near.pairs), **equal}.items())), near.complete


def conflicting(examples: Dataset) -> tuple[tuple[int, ...], ...]:
    """Return the indices of examples whose words are equal and whose labels are not, by text.

    Case and the spaces between words make no difference; a text without words equals no other.
    """
    members: dict[tuple[str, ...], list[int]] = {}
    for index, text in enumerate(examples.texts):
        if any(words := _words(text)):
            members.setdefault(words, []).append(index)
    targets = examples.targets
    found = (group for group in members.values() if len(group) > 1)
    return tuple(tuple(group) for group in found if len({targets[index] for index in group}) > 1)


def _words(text: Text) -> tuple[str, ...]:
    """Return each text of a pair, or the one text, as its words joined by spaces."""
    parts = text if isinstance(text, tuple) else (text if isinstance(text, str) else " ".join(text),)
    return tuple(" ".join(split_words(normalize(part, lowercase=True))) for part in parts)
