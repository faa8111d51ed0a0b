"""The scikit-learn face: `TextClassifier`, `TextRegressor` and `TokenClassifier`."""

from mixling.estimators.classifier import TextClassifier
from mixling.estimators.labeler import TokenClassifier
from mixling.estimators.regressor import TextRegressor

__all__ = ["TextClassifier", "TextRegressor", "TokenClassifier"]
