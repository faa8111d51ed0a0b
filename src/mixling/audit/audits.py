"""Audits by the kind of labels: their findings, and how many of these are likely to be wrong."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from mixling.arrays import Float64, Int64
from mixling.data.dataset import Dataset
from mixling.metrics.base import ClassificationMetrics, MultiLabelMetrics, TaggingMetrics

CONFUSED = 20  # pairs of labels that are listed
_FIRST = 50  # findings that are listed first where none of them is likely enough to be wrong
SHARES = (0.02, 0.05, 0.1)  # of wrong labels, for which the precision is given
# of the labels if they are as usual, and of the findings that are called likely errors
WRONG = 0.05
LIKELY = 0.9


class Finding(NamedTuple):
    """A likely label error: the index of an example, what its label or labels probably should be, and probabilities.

    `probability` is of the data's label, `suggested_probability` of `suggested`; of several labels, `suggested`
    differs from them in one, and the probabilities are that it is right as given, and that it is not.
    """

    example: int
    probability: float
    suggested: str
    suggested_probability: float


@dataclass(frozen=True, kw_only=True)
class Audit(ABC):
    """What was found in n examples with C labels.

    Attributes:
        examples: the audited examples.
        names: the labels.
        probabilities: (n, C) of models that did not see the example; of tags, (words, C).
        quality: (n,) the probability of the label in the data; the lowest are most likely wrong.
        errors: (n,) labels that the models find improbable; never one that only one text has, as no model could learn
            it.
        planted: the probabilities of labels that are wrong for certain, as `planted_errors` gives them.
        remarks: lines on labels that look alike, or like several that are joined.
        conflicts: indices of examples with equal words and different labels, by text.
        test: the other split, if there is one.
        leaks: its equal and nearly equal texts: (index in test, index in examples).
        leaks_complete: whether all texts were compared; otherwise there may be more.
        metrics: of the models on the examples that they did not see, by the given labels.
        metric: the name of the one that `baseline` is compared with.
        baseline: what the model `baseline_name` reaches.
        rare: labels with fewer examples than twice the folds, and their numbers.
    """

    examples: Dataset
    names: tuple[str, ...]
    probabilities: Float64
    quality: Float64
    errors: npt.NDArray[np.bool_]
    planted: Float64
    remarks: tuple[str, ...]
    conflicts: tuple[tuple[int, ...], ...]
    test: Dataset | None
    leaks: tuple[tuple[int, int], ...]
    leaks_complete: bool
    metrics: ClassificationMetrics | MultiLabelMetrics | TaggingMetrics
    metric: str
    baseline: float
    rare: tuple[tuple[str, int], ...]

    what: ClassVar[str] = "labels that the models find improbable"
    baseline_name: ClassVar[str] = "TF-IDF and logistic regression"

    def label_of(self, index: int) -> str:
        """Return the label of an example, or several joined by `|`."""
        target = self.examples.targets[index]
        return "|".join(target) if isinstance(target, tuple) else str(target)

    @property
    @abstractmethod
    def suggested(self) -> list[tuple[str, float]]:
        """What each example's label or labels probably should be, and how probable that is."""

    @abstractmethod
    def findings(self) -> list[Finding]:
        """Return the likely errors, the most likely first."""

    @property
    @abstractmethod
    def mixed_up(self) -> tuple[tuple[str, str, int], ...]:
        """What is wrong most often: a label, what it is taken for, and the number of examples."""

    def macro_f1(self) -> float:
        """Return the mean F1 of the labels, or of the kinds of spans."""
        if isinstance(self.metrics, TaggingMetrics):
            return float(np.mean([score.f1 for score in self.metrics.per_class]))
        return self.metrics.macro_f1

    def precision(self, first: int, wrong: float = WRONG) -> float:
        """Return how many of the first findings are wrong, as a fraction, if as many of the examples are as is given.

        Wrong labels are as improbable as planted ones, so the findings up to a probability have the fraction of them
        that planted ones have. Labels that are hard to tell apart are confused more often than those.
        """
        if not (findings := self.findings()[:first]):
            return 0.0
        found = np.searchsorted(self.planted, findings[-1].probability, side="right") / len(self.planted)
        return min(wrong * float(found) * len(self.examples) / len(findings), 1.0)

    def num_likely(self) -> int:
        """Return how many findings are likely errors: of the first of them, most are wrong if some labels are."""
        values = np.array([finding.probability for finding in self.findings()])
        found = np.searchsorted(self.planted, values, side="right") / len(self.planted)
        enough = np.flatnonzero(WRONG * found * len(self.examples) / np.arange(1, len(values) + 1) >= LIKELY)
        # Of a few, the fraction is mostly chance.
        return int(enough[-1]) + 1 if len(enough) and enough[-1] >= min(_FIRST, len(values)) - 1 else 0

    def num_first(self) -> int:
        """Return how many findings to look at first: the likely errors, or some of the others."""
        return self.num_likely() or min(_FIRST, len(self.findings()))

    def ranked(self) -> Int64:
        """Return the indices of examples with likely errors, the most likely first."""
        found = np.flatnonzero(self.errors)
        return found[np.argsort(self.quality[found], kind="stable")]

    def to_dict(self) -> dict[str, Any]:
        """Return the numbers as JSON values."""
        return {
            "examples": len(self.examples),
            "labels": len(self.names),
            "remarks": list(self.remarks),
            "improbable": len(self.findings()),
            "likely_errors": self.num_likely(),
            "first": self.num_first(),
            "precision_of_first": {str(wrong): round(self.precision(self.num_first(), wrong), 4) for wrong in SHARES},
            "conflicting_texts": len(self.conflicts),
            "conflicting_examples": sum(map(len, self.conflicts)),
            "leaks": None if self.test is None else len(self.leaks),
            "leaks_complete": self.leaks_complete,
            self.metric: self.metrics.numbers()[self.metric],
            "macro_f1": self.macro_f1(),
            f"baseline_{self.metric}": self.baseline,
            "rare": dict(self.rare),
            "confused": [list(item) for item in self.mixed_up],
            "per_class": self.metrics.to_dict()["per_class"],
        }


@dataclass(frozen=True, kw_only=True)
class LabelAudit(Audit):
    """An audit of examples with one label each.

    Attributes:
        given: (n,) ids of the given labels.
    """

    given: Int64

    @property
    def suggested(self) -> list[tuple[str, float]]:
        best = self.probabilities.argmax(1)
        return [
            (self.names[index], float(row[index])) for index, row in zip(best.tolist(), self.probabilities, strict=True)
        ]

    def findings(self) -> list[Finding]:
        suggested = self.suggested
        return [Finding(i, float(self.quality[i]), *suggested[i]) for i in self.ranked().tolist()]

    @property
    def mixed_up(self) -> tuple[tuple[str, str, int], ...]:
        best = self.probabilities.argmax(1)
        wrong = best != self.given
        pairs, counts = np.unique(self.given[wrong] * len(self.names) + best[wrong], return_counts=True)
        most = np.argsort(-counts, kind="stable")[:CONFUSED]
        names = ((*divmod(int(pairs[i]), len(self.names)), int(counts[i])) for i in most)
        return tuple((self.names[a], self.names[b], count) for a, b, count in names)


@dataclass(frozen=True, kw_only=True)
class LabelsAudit(Audit):
    """An audit of examples with any number of labels each.

    Attributes:
        given: (n, C) 1 for given labels.
        confidence: (n, C) the probability that a label is right as it is, given or not.
        label_errors: (n, C) likely errors: labels that are missing, or superfluous.
    """

    given: Int64
    confidence: Float64
    label_errors: npt.NDArray[np.bool_]

    @property
    def suggested(self) -> list[tuple[str, float]]:
        right = np.where(self.errors, 1 - self.quality, self.quality).tolist()
        marks = (self.given > 0) ^ self.label_errors
        return [(self._joined(row), value) for row, value in zip(marks, right, strict=True)]

    def findings(self) -> list[Finding]:
        rows, columns = np.nonzero(self.label_errors)
        values = self.confidence[rows, columns]
        out = []
        for at in np.argsort(values, kind="stable").tolist():
            marks = self.given[rows[at]] > 0
            marks[columns[at]] ^= True
            out.append(Finding(int(rows[at]), float(values[at]), self._joined(marks), float(1 - values[at])))
        return out

    @property
    def mixed_up(self) -> tuple[tuple[str, str, int], ...]:
        kinds = (("missing", self.given == 0), ("superfluous", self.given > 0))
        found = [
            (name, kind, int(count))
            for kind, marks in kinds
            for name, count in zip(self.names, (self.label_errors & marks).sum(0).tolist(), strict=True)
            if count
        ]
        return tuple(sorted(found, key=lambda item: -item[2])[:CONFUSED])

    def _joined(self, marks: npt.NDArray[np.bool_]) -> str:
        return "|".join(self.names[index] for index in np.flatnonzero(marks))
