"""Where a saved model is wrong: its worst mistakes with the words that explain them, and its metrics by slice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from mixling.answers.predictions import Prediction
from mixling.audit.neighbors import Neighbor, nearest
from mixling.data.dataset import Dataset
from mixling.data.examples import Example, Target
from mixling.errors import ConfigError
from mixling.explain.explanation import Explanation
from mixling.metrics.intervals import Interval, rate_interval
from mixling.runtime.predictor import Predictor
from mixling.text.encoder import Text
from mixling.text.words import split_words

MAX_MISTAKES = 1000  # that are explained
_LENGTHS = (0.25, 0.5, 0.75)  # quantiles of the texts' lengths between slices
_RARE = 2  # words that only one text has: more are one slice


@dataclass(frozen=True, kw_only=True)
class Mistake:
    """A wrong answer.

    Attributes:
        answer: what the model predicts, in the form of a target.
        severity: the probability of the wrong answer (1 - it, of a label that is missing), or the absolute error.
        explanation: of the wrong answer; of several labels, of the most certain wrong one.
        neighbors: the nearest training examples; empty if they are not known.
    """

    example: Example
    answer: Target
    severity: float
    explanation: Explanation
    neighbors: Sequence[Neighbor] = ()


@dataclass(frozen=True, kw_only=True)
class Slice:
    """Examples that have something in common, and the headline metric on them with its 95% interval."""

    name: str
    count: int
    value: float
    interval: Interval

    def to_dict(self) -> dict[str, Any]:
        """Return JSON values."""
        return {
            "slice": self.name,
            "examples": self.count,
            "value": self.value,
            "interval": [self.interval.low, self.interval.high],
        }


def find_mistakes(
    predictor: Predictor,
    examples: Sequence[Example],
    predictions: Sequence[Prediction],
    *,
    train: Dataset | None = None,
    most: int = MAX_MISTAKES,
) -> list[Mistake]:
    """Return the worst mistakes, the worst first: up to `most`, explained by leaving words out.

    Args:
        train: the training examples; the nearest ones are named. None: none are.

    Raises:
        ConfigError: answers are not for whole texts.
    """
    task = predictor.task
    if task.per_word or task.windows:
        raise ConfigError(f"--errors: the model gives {task.gives}; mistakes are listed of models that answer per text")
    found = []
    for example, prediction in zip(examples, predictions, strict=True):
        if (wrong := _wrong(prediction, example.target)) is not None:
            found.append((*wrong, example, task.answer(prediction, example.text)))
    found.sort(key=lambda item: -item[0])
    found = found[:most]
    near: Sequence[Sequence[Neighbor]] = [()] * len(found)
    if train is not None and found:
        near = nearest(predictor, train, [example.text for _, _, example, _ in found])
    return [
        Mistake(
            example=example,
            answer=answer,
            severity=severity,
            explanation=predictor.explain(example.text, label, "leave_one_out"),
            neighbors=neighbors,
        )
        for (severity, label, example, answer), neighbors in zip(found, near, strict=True)
    ]


def _wrong(prediction: Prediction, target: Target) -> tuple[float, str | None] | None:
    """Return how severe a mistake is and which label is to be explained; None where the answer is right."""
    probabilities = prediction.probabilities or {}
    if prediction.label is not None:
        return None if prediction.label == target else (probabilities[prediction.label], prediction.label)
    if prediction.labels is not None:
        assert isinstance(target, tuple)
        predicted = set(prediction.labels)
        wrong = {name: p if name in predicted else 1 - p for name, p in probabilities.items()
                 if (name in predicted) != (name in target)}  # fmt: skip
        return max(((p, name) for name, p in wrong.items()), default=None)
    assert prediction.value is not None
    assert isinstance(target, float)
    return (error, None) if (error := abs(prediction.value - target)) else None


def slices(predictor: Predictor, examples: Sequence[Example], predictions: Sequence[Prediction]) -> list[Slice]:
    """Return the headline metric by length, and by the number of words that no other text has.

    Raises:
        ConfigError: the model answers questions.
        DataError: there is no example.
    """
    task = predictor.task
    if task.windows:
        raise ConfigError(f"--slices: the model gives {task.gives}; slices are of models for labels or numbers")
    answers = [task.answer(item, example.text) for item, example in zip(predictions, examples, strict=True)]
    score = task.score([example.target for example in examples], answers)
    words = [_words(example.text) for example in examples]
    lengths = np.array([len(items) for items in words])
    texts_with = Counter(word for items in words for word in set(items))
    rare = np.array([min(sum(texts_with[word] == 1 for word in set(items)), _RARE) for items in words])
    out = []
    for name, chosen in (*_by_length(lengths), *_by_rare_words(rare)):
        hits, sizes = score.hits[chosen], score.sizes[chosen]
        if sizes.sum():
            value = float(hits.sum() / sizes.sum())
            out.append(Slice(name=name, count=int(chosen.sum()), value=value, interval=rate_interval(hits, sizes)))
    return out


def _by_length(lengths: npt.NDArray[np.int64]) -> list[tuple[str, npt.NDArray[np.bool_]]]:
    """Return about a quarter of the texts each; fewer slices where many have the same length."""
    ends = [*sorted({int(value) for value in np.quantile(lengths, _LENGTHS)} - {int(lengths.max())}), lengths.max()]
    out, first = [], int(lengths.min())
    for end in map(int, ends):
        name = f"words: {first}" if first == end else f"words: {first}-{end}"
        out.append((name, (lengths >= first) & (lengths <= end)))
        first = end + 1
    return out


def _by_rare_words(rare: npt.NDArray[np.int64]) -> list[tuple[str, npt.NDArray[np.bool_]]]:
    names = [*(f"rare words: {number}" for number in range(_RARE)), f"rare words: {_RARE} or more"]
    return [(name, rare == number) for number, name in enumerate(names) if (rare == number).any()]


def _words(text: Text) -> list[str]:
    parts = text if isinstance(text, list | tuple) else [text]
    return [word.lower() for part in parts for word in split_words(part)]
