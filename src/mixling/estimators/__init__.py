"""Estimators with scikit-learn's interface: `TextClassifier`, `TextRegressor` and `TokenClassifier`."""

from mixling.estimators.classifier import TextClassifier
from mixling.estimators.regressor import TextRegressor
from mixling.estimators.token_classifier import TokenClassifier

__all__ = ["TextClassifier", "TextRegressor", "TokenClassifier"]
