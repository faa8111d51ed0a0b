"""The scikit-learn face: `TextClassifier` and `TokenLabeller`."""

from mixling.estimators.classifier import TextClassifier
from mixling.estimators.labeller import TokenLabeller

__all__ = ["TextClassifier", "TokenLabeller"]
