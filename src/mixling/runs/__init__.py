"""A run: from a configuration and data to a folder that holds the model, its measures and its record."""

from mixling.data.examples import DataConfig
from mixling.runs.choice import Choice, choose_model
from mixling.runs.config import RUN_FILE, TASKS, RunConfig, resumed_config
from mixling.runs.fit import fit, read_data
from mixling.runs.folder import Run, load_model

__all__ = [
    "RUN_FILE",
    "TASKS",
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
