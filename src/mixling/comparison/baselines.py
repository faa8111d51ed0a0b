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
from scipy.sparse import csr_matrix, hstack
from sklearn.feature_extraction.text import TfidfVectorizer

from mixling.data.examples import Target
from mixling.errors import DataError
from mixling.tasks.base import Task
from mixling.text.encoder import Text

FEATURES = ("word", "word+char")
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


def sides_of(text: Text) -> tuple[str, ...]:
    """Return a text as one string and a pair as two; pre-split words are joined by spaces."""
    return text if isinstance(text, tuple) else (text if isinstance(text, str) else " ".join(text),)


def weight_bytes(weights: npt.NDArray[np.floating]) -> int:
    """Return the bytes of a float32 matrix, dense or as (index, value) pairs of its nonzeros, whichever is smaller."""
    return min(4 * weights.size, 8 * int(np.count_nonzero(weights)))


class TfidfFeatures:
    """TF-IDF of word 1-2-grams, optionally with character 2-5-grams inside words; both texts of a pair have their own.

    Args:
        features: of FEATURES.
    """

    parameters = 0  # terms and their weights are counted, not learned

    def __init__(self, features: str) -> None:
        self._features = features
        self._sides: list[list[TfidfVectorizer]] = []

    def fit_transform(self, texts: Sequence[Text]) -> csr_matrix:
        """Learn the terms and return the features (R, F).

        Raises:
            DataError: no text has a term.
        """
        self._sides = []
        parts = []
        for side in zip(*map(sides_of, texts), strict=True):
            self._sides.append([])
            # Separately: a FeatureUnion of the two takes a third longer for one text.
            kinds = [TfidfVectorizer(ngram_range=(1, 2), token_pattern=r"\w+", sublinear_tf=True, dtype=np.float32)]
            if self._features == "word+char":
                letters = {"analyzer": "char_wb", "ngram_range": (2, 5), "min_df": 2}
                kinds.append(TfidfVectorizer(**letters, sublinear_tf=True, dtype=np.float32))
            for one in kinds:
                try:
                    parts.append(one.fit_transform(side))
                except ValueError:  # there is no such term, as where texts are of punctuation
                    continue
                self._sides[-1].append(one)
        if not parts:
            raise DataError(
                f"TF-IDF finds no terms ({self._features}) in the training texts; give texts that have some"
            )
        return hstack(parts, format="csr")

    def transform(self, texts: Sequence[Text]) -> csr_matrix:
        """Return the features (R, F) of other texts."""
        sides = zip(*map(sides_of, texts), strict=True)
        parts = [one.transform(side) for ones, side in zip(self._sides, sides, strict=True) for one in ones]
        return hstack(parts, format="csr")

    def size(self) -> int:
        """Return the bytes of the terms as lines of text, and of their float32 weights."""
        terms = (term for ones in self._sides for one in ones for term in one.vocabulary_)
        return sum(len(term.encode("utf-8", "surrogatepass")) + 1 + 4 for term in terms)


class Linear:
    """Weights and biases of fitted regressions, with the predictions of scikit-learn's `predict`.

    scikit-learn copies the transposed weights at every call, nearly all of the 27 ms per sentence of a tagger with 72
    tags.
    """

    def __init__(self, models: Sequence[Any], num_features: int) -> None:
        coefficients = np.concatenate([np.zeros((0, num_features)), *(np.atleast_2d(model.coef_) for model in models)])
        self._weights = np.ascontiguousarray(coefficients.T, np.float32)  # (F, C); of two classes (F, 1)
        self._bias = np.concatenate([np.zeros(0), *(np.atleast_1d(model.intercept_) for model in models)]).astype(
            np.float32
        )
        self.parameters = coefficients.size + len(self._bias)
        self.bytes = weight_bytes(self._weights) + 4 * len(self._bias)

    def scores(self, features: csr_matrix) -> npt.NDArray[np.float32]:
        """Return scores (R, C), or (R, 1) with two classes."""
        assert features.dtype == np.float32, "of another type, and the weights would be copied"
        scores: npt.NDArray[np.float32] = features @ self._weights + self._bias
        return scores

    def classes(self, features: csr_matrix) -> npt.NDArray[np.int64]:
        """Return the indices of the best classes (R,)."""
        scores = self.scores(features)
        return (scores[:, 0] > 0).astype(np.int64) if scores.shape[1] == 1 else scores.argmax(1)


class TextFeatures(Protocol):
    """What a linear model reads of texts; `parameters` is the number of those that compute it."""

    parameters: int

    def transform(self, texts: Sequence[Text]) -> Any:
        """Return the features (R, F) of texts."""

    def size(self) -> int:
        """Return the bytes of what computes them."""


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
        seed: int,
    ) -> None:
        begin = time.perf_counter()
        self.options = options
        self._encode = encode
        model = task.fit_linear(features, targets, strength=options["C"], seed=seed)
        self._answers = model.answers
        self._linear = Linear(model.models, features.shape[1])
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
    only: Mapping[str, Any] | None = None,
) -> Iterator[LinearBaseline]:
    """Yield one fit per choice of features and C, smaller ones first; its seconds include computing the features.

    Args:
        only: the options of one earlier fit; None: all choices.

    Raises:
        DataError: no text has a word.
    """
    kinds = FEATURES if only is None else (only["features"],)
    for features in kinds:
        begin = time.perf_counter()
        encode = TfidfFeatures(features)
        try:
            encoded = encode.fit_transform(texts)
        except DataError:
            if features != kinds[-1]:  # there may be characters where there are no words
                continue
            raise
        seconds = time.perf_counter() - begin
        for strength in TFIDF_STRENGTHS if only is None else (only["C"],):
            options = {"features": features, "C": strength, "columns": encoded.shape[1]}
            baseline = LinearBaseline(task, encode, encoded, targets, options, seed)
            baseline.seconds += seconds
            yield baseline


@dataclass(frozen=True)
class BaselineKind:
    """A baseline that a task can name.

    title, about: its name in the table and its description in the legend. fit: yields one fit per choice of options, or
    with `only`, the options of a fit, that one. missing: why it cannot be fitted here; "" if it can. likely: the
    options that are tried where there is no time for all; empty: all are.
    """

    title: Callable[[type[Task] | Task], str]
    about: Callable[[type[Task] | Task], str]
    fit: Callable[..., Iterator[Baseline]]
    missing: Callable[[], str] = lambda: ""
    likely: tuple[Mapping[str, Any], ...] = ()


tfidf = BaselineKind(
    title=lambda task: f"tf-idf + {task.linear[0]}",
    about=lambda task: f"{task.linear[1]} over word 1-2-grams, or these and character 2-5-grams; features and C chosen",
    fit=fit_tfidf,
    likely=tuple({"features": FEATURES[-1], "C": strength} for strength in TFIDF_STRENGTHS[-2:]),
)
