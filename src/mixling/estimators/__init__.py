"""The scikit-learn face: `TextClassifier`, `TextRegressor` and `TokenLabeller`."""

from mixling.estimators.classifier import TextClassifier
from mixling.estimators.labeller import TokenLabeller
from mixling.estimators.regressor import TextRegressor

__all__ = ["TextClassifier", "TextRegressor", "TokenLabeller"]
