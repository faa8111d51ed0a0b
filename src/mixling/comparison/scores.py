"""Answers -> how many are right, and how sure that is. R is the number of rows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mixling.data.examples import Target
from mixling.tasks.metrics import Metrics
from mixling.tasks.reports import classification_report, multilabel_report, tagging_report
from mixling.text.labels import LabelKind, LabelSet

Floats = npt.NDArray[np.float64]

RESAMPLES = 2_000
_Z = 1.959963984540054  # the normal distribution has 95% between -z and z

# What the table is about, and what stands beside it.
HEADLINE: dict[LabelKind, str] = {"single": "accuracy", "multi": "subset_accuracy", "iob": "word_accuracy"}
ASIDE: dict[LabelKind, tuple[str, ...]] = {
    "single": ("macro_f1",),
    "multi": ("micro_f1", "macro_f1"),
    "iob": ("span_f1", "sentence_accuracy"),
}


@dataclass(frozen=True)
class Interval:
    """Where a number lies with 95% confidence."""

    low: float
    high: float


@dataclass(frozen=True)
class Score:
    """How right the answers of one model are.

    Attributes:
        numbers: the measures of HEADLINE and ASIDE.
        hits: (R,) right answers of each row: 0 or 1, of a tagger the number of words that are tagged right.
        sizes: (R,) answers that each row asks for: 1, of a tagger its words.
    """

    numbers: dict[str, float]
    hits: Floats
    sizes: Floats


def score(labels: LabelSet, targets: Sequence[Target], answers: Sequence[Target]) -> Score:
    """Score answers, labels by name, against the targets of the same rows.

    Args:
        labels: those of the training rows. A target that is none of them counts as an error, whatever was answered.
    """
    assert len(targets) == len(answers), f"{len(answers)} answers for {len(targets)} rows"
    kind = labels.kind
    known = set(labels.names)
    met = {name for target in (*targets, *answers) for name in _names(target)}
    everything = LabelSet((*labels.names, *sorted(met - known)), kind)
    truth, given = everything.targets(targets), everything.targets(answers)
    report: Metrics
    if kind == "iob":
        assert isinstance(truth, list)
        assert isinstance(given, list)
        hits = np.array([float((a == b).sum()) for a, b in zip(truth, given, strict=True)])
        sizes = np.array([float(len(tags)) for tags in truth])
        report = tagging_report(everything, truth, given, tables=False)
    else:
        truth, given = np.asarray(truth), np.asarray(given)
        hits = (truth == given if kind == "single" else (truth == given).all(1)).astype(np.float64)
        sizes = np.ones(len(truth))
        # Certain of what was answered: the measures that are read here depend on the answers only.
        certain = np.eye(len(everything))[given] if kind == "single" else given.astype(np.float64)
        rate = classification_report if kind == "single" else multilabel_report
        report = rate(everything, truth, certain, tables=False)
    found = report.numbers()
    return Score({name: found[name] for name in (HEADLINE[kind], *ASIDE[kind])}, hits, sizes)


def _names(target: Target) -> tuple[str, ...]:
    return (target,) if isinstance(target, str) else target or ()


def rate_interval(hits: Floats, sizes: Floats) -> Interval:
    """The interval of sum(hits) / sum(sizes): Wilson's where each row is one answer, else by resampling rows.

    The words of a sentence are not independent: an interval that counts them as if they were is too narrow.
    """
    if (sizes == 1).all():
        return wilson(float(hits.mean()), len(hits))
    return resampled(hits, sizes)


def wilson(rate: float, count: int) -> Interval:
    """Wilson's score interval of a rate among `count` independent answers."""
    shrink = 1 + _Z**2 / count
    centre = (rate + _Z**2 / (2 * count)) / shrink
    reach = _Z * math.sqrt(rate * (1 - rate) / count + _Z**2 / (4 * count**2)) / shrink
    return Interval(max(0.0, centre - reach), min(1.0, centre + reach))


def resampled(values: Floats, sizes: Floats, *, resamples: int = RESAMPLES) -> Interval:
    """The percentile bootstrap interval of sum(values) / sum(sizes) over rows.

    Of the differences between two models on the same rows it is a paired interval. The resamples of R rows are always
    the same ones.
    """
    chance = np.random.default_rng(0)
    ratios = np.empty(resamples)
    for i in range(resamples):
        rows = chance.integers(len(values), size=len(values))
        ratios[i] = values[rows].sum() / sizes[rows].sum()
    low, high = np.percentile(ratios, [2.5, 97.5])
    return Interval(float(low), float(high))
