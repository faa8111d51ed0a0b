"""Runs: training from a configuration and data to a folder with the model, its metrics and its record."""

from typing import TYPE_CHECKING

from mixling.lazy import lazy_imports

if TYPE_CHECKING:
    from mixling.runs.evaluation import evaluate
    from mixling.runs.pretrained import FINE_TUNING, pretrained_config

__getattr__, __dir__ = lazy_imports(__name__)
