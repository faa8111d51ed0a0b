"""Evaluating trained systems on rows that none of them was trained on: scores, differences, robustness and speed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mixling.comparison.benchmark import LabeledRows, TrainedSystem, reference_name
from mixling.metrics.intervals import Interval, rate_interval, resampled
from mixling.metrics.robustness import Robustness
from mixling.tasks.base import Task
from mixling.text.encoder import Text
from mixling.text.noise import NoiseLevel, noisy_texts


@dataclass(frozen=True, kw_only=True)
class SystemResult:
    """The scores of a trained system on the rows of a split.

    Attributes:
        mean: of the headline metric over the seeds; `interval` is that of the mean, over the choice of rows.
        by_seed: all metrics.
        difference, difference_interval: of the mean to the reference baseline's, paired by rows; None for itself.
    """

    mean: float
    interval: Interval
    by_seed: tuple[dict[str, float], ...]
    difference: float | None = None
    difference_interval: Interval | None = None


def evaluate_systems(systems: Sequence[TrainedSystem], task: Task, rows: LabeledRows) -> dict[str, SystemResult]:
    """Return the scores of each system on the rows, and the difference to the reference baseline's."""
    scores = {
        one.name: [task.score(rows.targets, answerer.predict(rows.texts)) for answerer in one.answerers]
        for one in systems
    }
    hits = {name: np.mean([one.hits for one in found], axis=0) for name, found in scores.items()}
    sizes = next(iter(scores.values()))[0].sizes
    reference = reference_name(task)
    out = {}
    for name, found in scores.items():
        by_seed = tuple(one.numbers for one in found)
        mean = float(np.mean([numbers[task.headline] for numbers in by_seed]))
        ahead = hits[name] - hits[reference]
        out[name] = SystemResult(
            mean=mean,
            interval=(resampled if task.resamples else rate_interval)(hits[name], sizes),
            by_seed=by_seed,
            difference=None if name == reference else float(ahead.sum() / sizes.sum()),
            difference_interval=None if name == reference else resampled(ahead, sizes),
        )
    return out


def robustness(
    systems: Sequence[TrainedSystem], task: Task, rows: LabeledRows, levels: Sequence[NoiseLevel]
) -> dict[str, Robustness]:
    """Return the headline metric on the rows with noise, the mean over the seeds, by system and level."""
    noisy = {level: noisy_texts(rows.texts, level) for level in levels}

    def mean(one: TrainedSystem, texts: list[Text]) -> float:
        scores = [task.score(rows.targets, answerer.predict(texts)) for answerer in one.answerers]
        return float(np.mean([score.numbers[task.headline] for score in scores]))

    return {one.name: {level: mean(one, texts) for level, texts in noisy.items()} for one in systems}
