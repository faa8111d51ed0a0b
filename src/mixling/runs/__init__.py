"""Runs: training from a configuration and data to a folder with the model, its metrics and its record.

Names are imported on first use, because reading a folder (`mixling.runs.artifact`) must not import torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mixling.data.examples import DataConfig
    from mixling.runs.artifact import RUN_FILE
    from mixling.runs.choice import choose_model
    from mixling.runs.config import RunConfig, resumed_config
    from mixling.runs.data import read_data
    from mixling.runs.run import Run
    from mixling.runs.training import fit
    from mixling.runs.weights import load_model
    from mixling.tasks.base import Choice

_HOMES = {
    "RUN_FILE": "runs.artifact",
    "Choice": "tasks.base",
    "DataConfig": "data.examples",
    "Run": "runs.run",
    "RunConfig": "runs.config",
    "choose_model": "runs.choice",
    "fit": "runs.training",
    "load_model": "runs.weights",
    "read_data": "runs.data",
    "resumed_config": "runs.config",
}

__all__ = [
    "RUN_FILE",
    "Choice",
    "DataConfig",
    "Run",
    "RunConfig",
    "choose_model",
    "fit",
    "load_model",
    "read_data",
    "resumed_config",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'mixling.runs' has no attribute {name!r}")
    return getattr(importlib.import_module(f"mixling.{_HOMES[name]}"), name)
