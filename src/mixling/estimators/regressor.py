"""Text regression as a scikit-learn estimator."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import RegressorMixin
from sklearn.metrics import r2_score

from mixling.data.in_memory import check_no_pairs, numbered_rows, score_weights
from mixling.estimators.base import FIT, SCORE, VALIDATION, Estimator
from mixling.tasks.regression import Regression
from mixling.text.encoder import Text


class TextRegressor(RegressorMixin, Estimator):
    """Predict a number for texts, pairs of texts or pre-split texts; parameters as in `TextClassifier`."""

    def fit(
        self,
        X: Iterable[Text],
        y: Iterable[float],
        sample_weight: Any = None,
        *,
        validation: tuple[Iterable[Text], Iterable[float]] | None = None,
    ) -> Self:
        """Train on texts and their numbers.

        Args:
            X: n texts.
            y: (n,) finite numbers.
            sample_weight: (n,) numbers >= 0.
            validation: texts and numbers to choose the best epoch on; default: a fraction of the examples.

        Raises:
            DataError: the texts or numbers cannot be used.
        """
        validation_rows = None if validation is None else numbered_rows(*validation, VALIDATION)
        self._fit(Regression.name, numbered_rows(X, y, FIT), validation_rows, sample_weight)
        return self

    def predict(self, X: Iterable[Text]) -> npt.NDArray[np.float64]:
        """Return the number of each text (n,), in the unit of `y`."""
        check_no_pairs(X)
        return np.array([item.value for item in self.predictor_.predict_stream(X)], np.float64)

    def score(self, X: Iterable[Text], y: Iterable[float], sample_weight: Any = None) -> float:
        """Return R squared, the score of scikit-learn's regressors.

        Raises:
            DataError: the texts, numbers or weights cannot be used, or there are none.
        """
        texts, targets = numbered_rows(X, y, SCORE)
        weights = score_weights(sample_weight, len(texts))
        return float(r2_score(targets, self.predict(texts), sample_weight=weights))
