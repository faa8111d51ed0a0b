"""What a task is compared with: the baselines that fit it, and linear models, also as part of a network."""

from __future__ import annotations

from abc import ABC
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from mixling.answers.labels import LabelSet
from mixling.answers.predictions import Prediction
from mixling.arrays import Float32
from mixling.data.examples import Target
from mixling.metrics.base import Score
from mixling.native.regressions import Rows
from mixling.text.encoder import Text


@dataclass(frozen=True)
class LinearModel:
    """A fitted linear baseline: weights (K, F) and biases (K,), and the function from scores (R, K) to answers."""

    weights: npt.NDArray[np.floating]
    bias: npt.NDArray[np.floating]
    answers: Callable[[npt.NDArray[np.float32]], list[Target]]


class Baselines(ABC):
    """The baselines of a task, and the linear model that is added to its networks (`mixling.text.ngram_branch`).

    Attributes:
        baselines: keys of `mixling.comparison.benchmark.BASELINES`, the linear one first.
        headline, aside: the main and the other metrics of a comparison; a task that is made for a metric of --metric
            may have this as its headline.
        resamples: what the intervals of a comparison resample; "" if each answer is right or wrong.
        linear: short and long name of the model of `fit_linear`.
        has_scores: a linear model of n-grams can be added to the network: `fit_scores` and what follows are there.
    """

    name: ClassVar[str]
    labels: LabelSet
    baselines: ClassVar[tuple[str, ...]] = ()
    headline: str
    aside: ClassVar[tuple[str, ...]]
    resamples: ClassVar[str] = ""
    linear: ClassVar[tuple[str, str]] = ("lr", "logistic regression")
    has_scores: ClassVar[bool] = False

    def score(self, targets: Sequence[Target], answers: Sequence[Target]) -> Score:
        """Score answers, given as labels, against the targets of the same rows; unknown labels are errors."""
        raise NotImplementedError(f"{self.name} has no baselines")

    @classmethod
    def answer(cls, prediction: Prediction, text: Text) -> Target:
        """Return a prediction in the form of a target."""
        raise NotImplementedError(f"{cls.name} has no baselines")

    @classmethod
    def fit_linear(cls, features: Rows, targets: Sequence[Target], *, strength: float) -> LinearModel:
        """Fit a linear model on features (R, F).

        Args:
            strength: the inverse of the regularization.
        """
        raise NotImplementedError(f"{cls.name} has no linear baseline")

    @classmethod
    def constant(cls, targets: Sequence[Target]) -> Callable[[Text], Target]:
        """Return what gives every text the most frequent target; of equally frequent ones the first."""
        ((most, _),) = Counter(targets).most_common(1)
        return lambda text: most

    @property
    def num_scores(self) -> int:
        """K, the scores that a linear model has for a text."""
        return len(self.labels)

    @property
    def ratio_powers(self) -> tuple[float, ...]:
        """Return the powers above 0 that `fit_scores` is tried with, in this order."""
        return ()

    def fit_scores(
        self,
        features: Any,
        targets: npt.NDArray[Any],
        weights: npt.NDArray[np.float32] | None,
        *,
        strength: float,
        ratio_power: float = 0.0,
        few: bool = False,
        duals: Float32 | None = None,
        kept: npt.NDArray[np.bool_] | None = None,
        columns: int = 0,
    ) -> tuple[npt.NDArray[np.floating], npt.NDArray[np.floating]]:
        """Fit a linear model by a convex loss: its weights (K, F) and biases (K,).

        Args:
            features: (B, F), sparse.
            targets: (B, ...), as `targets` gives them.
            weights: (B,) of the texts; None: all are 1.
            strength: the inverse of the regularization.
            ratio_power: as of `mixling.native.margins.fit_margins`; 0 for a task without `ratio_powers`.
            few: whether the texts are few, for which a slower model may be better.
            duals: (B, K), of a fit before, with another strength or of some of the texts; zeros of the first. A task
                that has such begins with them, and leaves its own in their place.
            kept: (K, F), the weights to fit, all others being 0; None: all. It is not heeded where texts are `few`.
            columns: number of the last features that are no terms, and are as they are with every `ratio_power`.
        """
        raise NotImplementedError(f"{self.name} has no scores")

    def logits_of_scores(self, scores: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        """Return the logits (B, C) that scores (B, K) are."""
        return scores

    def score_loss(self, logits: npt.NDArray[Any], targets: npt.NDArray[Any]) -> tuple[float, npt.NDArray[np.float64]]:
        """Return the mean unsmoothed loss of logits (B, C), in NumPy, and its gradient (B, C)."""
        raise NotImplementedError(f"{self.name} has no scores")
