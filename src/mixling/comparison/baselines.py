"""The interface of baselines, and TF-IDF with logistic regression, tuned on validation."""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from mixling.arrays import Float32
from mixling.comparison.tfidf_features import FEATURES, TfidfFeatures
from mixling.data.examples import Target
from mixling.errors import DataError
from mixling.native.sparse import SparseRows
from mixling.tasks.base import Task
from mixling.text.encoder import Text

TFIDF_STRENGTHS = (1.0, 3.0, 10.0, 30.0)


class Baseline(ABC):
    """A fitted baseline.

    Attributes:
        options: the chosen values of the grid.
        parameters: number of learned parameters.
        seconds: time to fit.
    """

    options: dict[str, Any]
    parameters: int
    seconds: float

    @abstractmethod
    def predict(self, texts: Sequence[Text]) -> list[Target]:
        """Return answers in the form of the targets."""

    @abstractmethod
    def size(self) -> int:
        """Return the bytes of the smallest file that could predict: float32 parameters, and the vocabulary as text."""


@dataclass(frozen=True)
class Tried:
    """A choice of options and its validation metric."""

    options: dict[str, Any]
    validation: float
    seconds: float


def choose(
    fitted: Iterable[Baseline], evaluate: Callable[[Baseline], float], *, less_is_better: bool = False
) -> tuple[Baseline, tuple[Tried, ...]]:
    """Return the first of the fits with the best validation metric, and all that were tried."""
    best: Baseline | None = None
    tried: list[Tried] = []
    sign = -1 if less_is_better else 1
    highest = -math.inf
    for baseline in fitted:
        value = evaluate(baseline)
        tried.append(Tried(baseline.options, value, baseline.seconds))
        if sign * value > highest:
            best = baseline
            highest = sign * value
    assert best is not None, "no options"
    return best, tuple(tried)


def weight_bytes(weights: npt.NDArray[np.floating]) -> int:
    """Return the bytes of a float32 matrix, dense or as (index, value) pairs of its nonzeros, whichever is smaller."""
    return min(4 * weights.size, 8 * int(np.count_nonzero(weights)))


class Linear:
    """The weights (K, F) and biases (K,) of a linear model."""

    def __init__(self, weights: npt.NDArray[np.floating], bias: npt.NDArray[np.floating]) -> None:
        self._weights = np.ascontiguousarray(weights.T, np.float32)  # (F, K); of two classes (F, 1)
        self._bias = bias.astype(np.float32)
        self.parameters = weights.size + len(bias)
        self.bytes = weight_bytes(self._weights) + 4 * len(bias)

    def scores(self, features: SparseRows | Float32) -> Float32:
        """Return scores (R, K) of features (R, F)."""
        return (features @ self._weights) + self._bias


class TextFeatures(Protocol):
    """What a linear model reads of texts; `parameters` is the number of those that compute it."""

    parameters: int

    def transform(self, texts: Sequence[Text]) -> Any:
        """Return the features (R, F) of texts."""

    def size(self) -> int:
        """Return the bytes of what computes them."""


class LearnedFeatures(TextFeatures, Protocol):
    """Features that are learned from training texts."""

    def fit_transform(self, texts: Sequence[Text]) -> SparseRows:
        """Learn the features and return them (R, F)."""


class LinearBaseline(Baseline):
    """The task's linear model on features of texts, such as logistic regression for classes.

    Args:
        features: (R, F) of the training texts, by `encode`.
        options: with the strength "C", the inverse of the regularization.
    """

    def __init__(
        self,
        task: type[Task],
        encode: TextFeatures,
        features: Any,
        targets: Sequence[Target],
        options: dict[str, Any],
    ) -> None:
        begin = time.perf_counter()
        self.options = options
        self._encode = encode
        model = task.fit_linear(features, targets, strength=options["C"])
        self._answers = model.answers
        self._linear = Linear(model.weights, model.bias)
        self.parameters = encode.parameters + self._linear.parameters
        self.seconds = time.perf_counter() - begin

    def predict(self, texts: Sequence[Text]) -> list[Target]:
        return self._answers(self._linear.scores(self._encode.transform(texts)))

    def size(self) -> int:
        return self._linear.bytes + self._encode.size()


def fit_tfidf(
    task: type[Task],
    texts: Sequence[Text],
    targets: Sequence[Target],
    *,
    seed: int,
    only: Sequence[Mapping[str, Any]] = (),
    encoder: Callable[[str], LearnedFeatures] = TfidfFeatures,
) -> Iterator[LinearBaseline]:
    """Yield one fit per choice of features and C, smaller ones first; its seconds include computing the features.

    Args:
        only: the choices, such as the options of one earlier fit; empty: all.
        encoder: makes what learns features of one of `FEATURES`.

    Raises:
        DataError: no text has a word.
    """
    choices = only or [{"features": features, "C": strength} for features in FEATURES for strength in TFIDF_STRENGTHS]
    kinds = list(dict.fromkeys(choice["features"] for choice in choices))
    for features in kinds:
        begin = time.perf_counter()
        encode = encoder(features)
        try:
            encoded = encode.fit_transform(texts)
        except DataError:
            if features != kinds[-1]:  # there may be characters where there are no words
                continue
            raise
        seconds = time.perf_counter() - begin
        for choice in choices:
            if choice["features"] != features:
                continue
            options = {"features": features, "C": choice["C"], "columns": encoded.shape[1]}
            baseline = LinearBaseline(task, encode, encoded, targets, options)
            baseline.seconds += seconds
            yield baseline


@dataclass(frozen=True)
class BaselineKind:
    """A baseline that a task can name.

    title, about: its name in the table and its description in the legend. fit: yields one fit per choice of options, or
    with `only`, some choices, these. missing: why it cannot be fitted here; "" if it can. likely: the
    options that are tried where there is no time for all; empty: all are. reads_columns: whether it reads the columns
    beside the texts.
    """

    title: Callable[[type[Task] | Task], str]
    about: Callable[[type[Task] | Task], str]
    fit: Callable[..., Iterator[Baseline]]
    missing: Callable[[], str] = lambda: ""
    likely: tuple[Mapping[str, Any], ...] = ()
    reads_columns: bool = False


tfidf = BaselineKind(
    title=lambda task: f"tf-idf + {task.linear[0]}",
    about=lambda task: f"{task.linear[1]} over word 1-2-grams, or these and character 2-5-grams; features and C chosen",
    fit=fit_tfidf,
    likely=tuple({"features": FEATURES[-1], "C": strength} for strength in TFIDF_STRENGTHS[-2:]),
)
