"""Texts and their numbers, as an estimator of scikit-learn."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import RegressorMixin
from sklearn.metrics import r2_score

from mixling.data.in_memory import numbered_rows, score_weights
from mixling.estimators.base import FIT, SCORE, VALIDATION, Estimator
from mixling.tasks.regression import Regression
from mixling.text.encoder import Text


class TextRegressor(RegressorMixin, Estimator):
    """Predicts a number for texts, pairs of texts or pre-split texts. Parameters are those of `TextClassifier`."""

    def fit(
        self,
        X: Iterable[Text],
        y: Iterable[float],
        sample_weight: Any = None,
        *,
        validation: tuple[Iterable[Text], Iterable[float]] | None = None,
    ) -> Self:
        """Train.

        Args:
            X: n texts.
            y: (n,) finite numbers.
            sample_weight: (n,) numbers >= 0.
            validation: texts and numbers to choose the best epoch on; by default a part of the examples.

        Raises:
            DataError: texts and numbers that cannot be used.
        """
        validation_rows = None if validation is None else numbered_rows(*validation, VALIDATION)
        self._fit(Regression.name, numbered_rows(X, y, FIT), validation_rows, sample_weight)
        return self

    def predict(self, X: Iterable[Text]) -> npt.NDArray[np.float64]:
        """Return the number of each text, (n,), in the unit of `y`."""
        return np.array([item.value for item in self.predictor_.predict_stream(X)], np.float64)

    def score(self, X: Iterable[Text], y: Iterable[float], sample_weight: Any = None) -> float:
        """Return R squared, as scikit-learn's regressors do.

        Raises:
            DataError: texts, numbers and weights that cannot be used, or none.
        """
        texts, targets = numbered_rows(X, y, SCORE)
        weights = score_weights(sample_weight, len(texts))
        return float(r2_score(targets, self.predict(texts), sample_weight=weights))
