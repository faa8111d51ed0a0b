"""Evaluating trained systems on rows that none of them was trained on: scores, differences, robustness and speed."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mixling.comparison.benchmark import LabeledRows, TrainedSystem
from mixling.comparison.failures import Failures
from mixling.metrics.base import Score
from mixling.metrics.intervals import Interval, interval_of, percentiles, resampled_means
from mixling.metrics.robustness import Robustness
from mixling.tasks.base import Task
from mixling.text.encoder import Text
from mixling.text.noise import NoiseLevel, noisy_texts


@dataclass(frozen=True, kw_only=True)
class SystemResult:
    """The scores of a trained system on the rows of a split.

    Attributes:
        mean: of the headline metric over the seeds; `interval` is the mean's, over the choice of rows.
        by_seed: all metrics.
        difference, difference_interval: of the mean to the first system's (ours), paired by rows; None for itself.
    """

    mean: float
    interval: Interval
    by_seed: tuple[dict[str, float], ...]
    difference: float | None = None
    difference_interval: Interval | None = None


def evaluate_systems(
    systems: Sequence[TrainedSystem], task: Task, rows: LabeledRows, failures: Failures
) -> dict[str, SystemResult]:
    """Return the scores of each system on the rows, and the difference to the first one's.

    Args:
        failures: gets the systems that fail, except for the first.
    """
    scores: dict[str, list[Score]] = {}
    for one in systems:
        with _recorded(one, systems, failures):
            scores[one.name] = [task.score(rows.targets, answerer.predict(rows.texts)) for answerer in one.answerers]
    values = {name: resampled_means(found, task.headline) for name, found in scores.items()}
    reference = systems[0].name
    out: dict[str, SystemResult] = {}
    for name, found in scores.items():
        by_seed = tuple(one.numbers for one in found)
        mean = float(np.mean([numbers[task.headline] for numbers in by_seed]))
        is_other = name != reference
        out[name] = SystemResult(
            mean=mean,
            interval=interval_of(found, type(task).headline, task.headline, values[name]),
            by_seed=by_seed,
            difference=mean - out[reference].mean if is_other else None,
            difference_interval=percentiles(values[name] - values[reference]) if is_other else None,
        )
    return out


def _recorded(
    one: TrainedSystem, systems: Sequence[TrainedSystem], failures: Failures
) -> contextlib.AbstractContextManager[None]:
    return contextlib.nullcontext() if one is systems[0] else failures.of(one.name, one.about)


def robustness(
    systems: Sequence[TrainedSystem], task: Task, rows: LabeledRows, levels: Sequence[NoiseLevel], failures: Failures
) -> dict[str, Robustness]:
    """Return the headline metric on the rows with noise, the mean over the seeds, by system and level."""
    noisy = {level: noisy_texts(rows.texts, level) for level in levels}

    def mean(one: TrainedSystem, texts: list[Text]) -> float:
        scores = [task.score(rows.targets, answerer.predict(texts)) for answerer in one.answerers]
        return float(np.mean([score.numbers[task.headline] for score in scores]))

    out: dict[str, Robustness] = {}
    for one in systems:
        with _recorded(one, systems, failures):
            out[one.name] = {level: mean(one, texts) for level, texts in noisy.items()}
    return out
