"""Text regression as a scikit-learn estimator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.metrics import r2_score

from mixling.data.frames import Names
from mixling.data.in_memory import LabeledTexts, check_no_pairs, numbered_rows, score_weights
from mixling.estimators.base import FIT, SCORE, VALIDATION, Estimator
from mixling.tasks.regression import Regression


class TextRegressor(RegressorMixin, Estimator):
    """Predict a number for texts, pairs of texts or pre-split texts; parameters as in `TextClassifier`."""

    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        *,
        text: Names | None = None,
        label: Any = None,
        features: str | Sequence[str] = (),
        validation: Any = None,
    ) -> Self:
        """Train on texts and their numbers, or on a table that has both.

        Args:
            X: n texts, or a table, as of `TextClassifier.fit`.
            y: (n,) finite numbers; None: they are in the table.
            sample_weight: (n,) numbers >= 0.
            text: the table's column of the text, or several that belong together; by default the only one left, or
                "text".
            label: the table's column of the numbers; by default "label".
            features: the table's columns beside the text that the model reads, too, as of `TextClassifier.fit`.
            validation: (X, y), or a table as X, to choose the best epoch on; default: a fraction of the examples.

        Raises:
            DataError: the texts or numbers cannot be used.
        """
        texts, numbers = self._read(X, y, FIT, text=text, label=label, features=features)
        validation_rows = None
        if validation is not None:
            validation_rows = numbered_rows(*self._read_validation(validation, VALIDATION), VALIDATION)
        self._fit(Regression.name, numbered_rows(texts, numbers, FIT), validation_rows, sample_weight)
        return self

    def predict(self, X: Any) -> Any:
        """Return the number of each text (n,), in the unit of `y`; after `set_output` a table with the column value.

        Args:
            X: texts, or a table with the columns that `fit` read.
        """
        texts = self._texts(X)
        check_no_pairs(texts)
        if (library := self._output()) is not None:
            return self._as_table(library, self.predictor_.columns(texts), X)
        return np.array([item.value for item in self.predictor_.predict_stream(texts)], np.float64)

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Return R squared, the score of scikit-learn's regressors; X and y as of `fit`.

        Raises:
            DataError: the texts, numbers or weights cannot be used, or there are none.
        """
        texts, targets = self._scored_rows(X, y)
        weights = score_weights(sample_weight, len(texts))
        found = [item.value for item in self.predictor_.predict_stream(texts)]
        return float(r2_score(targets, found, sample_weight=weights))

    def _scored_rows(self, X: Any, y: Any) -> LabeledTexts:
        return numbered_rows(*self._read_again(X, y, SCORE), SCORE)
