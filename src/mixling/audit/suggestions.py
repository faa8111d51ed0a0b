"""Which unlabeled texts to label next: those that a model is unsure of, and that differ from each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mixling.arrays import Float64
from mixling.data.near_duplicates import MIN_WORDS, are_near, word_sets
from mixling.errors import ConfigError
from mixling.runtime.predictor import Predictor
from mixling.tasks.base import Task
from mixling.text.encoder import Text

_CANDIDATES = 10  # times as many of the most uncertain texts as are chosen


@dataclass(frozen=True, kw_only=True)
class Suggestion:
    """A text to label.

    Attributes:
        index: of the text.
        label: the most probable label, or the predicted labels joined by `|` (multi-label).
        margin: how sure the model is, from 0 to 1: the difference of the two highest probabilities; of several labels,
            twice the distance of the most uncertain one from .5.
    """

    index: int
    label: str
    margin: float


def suggest(predictor: Predictor, texts: Sequence[Text], count: int, *, spread: bool = True) -> list[Suggestion]:
    """Choose texts to label next, the most useful first.

    Of the texts with the smallest margins (Scheffer et al., Active hidden Markov models, IDA 2001), the first is the
    most uncertain one; each of the others is the one with the largest product of its uncertainty and of the distance of
    its probabilities from the texts already chosen (k-center; Sener and Savarese, ICLR 2018). No text is
    nearly equal to an earlier one, and texts without words are left out.

    Args:
        spread: False takes the most uncertain texts, however close they are to each other.

    Returns:
        `count` suggestions, or fewer if there are fewer different texts.

    Raises:
        ConfigError: the model has no probabilities for texts, or `count` is below 1.
        DataError: an item is not a text.
    """
    task = predictor.task
    if not task.has_probabilities:
        raise ConfigError(f"the model gives {task.gives}, without probabilities for texts; it cannot suggest any")
    if count < 1:
        raise ConfigError(f"got {count} texts to choose; at least 1 is needed")
    probabilities = predictor.predict_proba(texts)
    sure = margins(task, probabilities)
    words = dict(enumerate(word_sets(texts)))
    order = [int(index) for index in np.argsort(sure, kind="stable") if words[int(index)]]
    chosen: list[int] = []
    while order and len(chosen) < count:  # the next candidates, where the first were nearly equal to each other
        size = (_CANDIDATES if spread else 1) * count
        part = np.array(order[:size])
        order = order[size:]
        chosen += _spread(part, sure, probabilities, words, chosen, count - len(chosen))
    return [
        Suggestion(index=index, label=_label(task, probabilities[index]), margin=float(sure[index])) for index in chosen
    ]


def _label(task: Task, probabilities: Float64) -> str:
    """Return what the model predicts, given the probabilities (C,) of a text."""
    names = task.labels.names
    if task.exclusive:
        return names[int(probabilities.argmax())]
    thresholds = task.thresholds()
    return "|".join(name for name, p in zip(names, probabilities.tolist(), strict=True) if p >= thresholds[name])


def margins(task: Task, probabilities: Float64) -> Float64:
    """Return how sure a model is of each text (n,), from 0 to 1, given its probabilities (n, C)."""
    if not task.exclusive:
        margins: Float64 = 2 * np.abs(probabilities - 0.5).min(1)
        return margins
    top = np.partition(probabilities, -2, axis=1)[:, -2:]
    return top[:, 1] - top[:, 0]


def _spread(
    candidates: npt.NDArray[np.int64],
    sure: Float64,
    probabilities: Float64,
    words: dict[int, frozenset[str]],
    earlier: Sequence[int],
    count: int,
) -> list[int]:
    """Choose up to `count` of the candidates, which are sorted by their margins."""
    points = np.sqrt(probabilities[candidates])  # the Euclidean distance of these is the Hellinger distance
    distances = np.ones(len(candidates))
    for index in earlier:
        distances = np.minimum(distances, _distances(points, np.sqrt(probabilities[index])))
    open_ = np.ones(len(candidates), bool)
    chosen: list[int] = []
    while open_.any() and len(chosen) < count:
        gains = np.where(open_, (1 - sure[candidates]) * distances, -1)
        best = int(gains.argmax())
        open_[best] = False
        index = int(candidates[best])
        if any(_same(words[index], words[other]) for other in (*earlier, *chosen)):
            continue
        chosen.append(index)
        distances = np.minimum(distances, _distances(points, points[best]))
    return chosen


def _distances(points: Float64, point: Float64) -> Float64:
    distances: Float64 = np.sqrt(np.square(points - point).sum(1) / 2)
    return distances


def _same(first: frozenset[str], second: frozenset[str]) -> bool:
    return first == second or (min(len(first), len(second)) >= MIN_WORDS and are_near(first, second))
