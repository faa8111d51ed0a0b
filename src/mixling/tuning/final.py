"""Train the best configuration of a search again, on training and validation examples, and export it."""

from __future__ import annotations

from pathlib import Path

from mixling.data.dataset import Dataset
from mixling.metrics.base import Metrics
from mixling.runs.config import RunConfig, resumed_config
from mixling.runs.files import RUN_FILE, folder_to_resume
from mixling.runs.run import Run
from mixling.runs.training import fit
from mixling.tasks import task_type
from mixling.training.callbacks import Callback, Log
from mixling.training.files import CHECKPOINT


def train_best(
    config: RunConfig, train: Dataset, validation: Dataset, *, folder: Path, callback: Callback, log: Log
) -> Run[Metrics] | None:
    """Train a configuration with a refit, or continue this training; return None if it is already finished.

    Args:
        folder: the run folder. A model in it that has another configuration is replaced.
    """
    wanted = config.model_copy(update={"refit": not task_type(config.task).windows})
    location, resume = folder_to_resume(folder), False
    if (location / RUN_FILE).exists():
        found, finished = resumed_config(folder)
        if found == wanted and finished:
            return None
        resume = found == wanted and (location / CHECKPOINT).exists()
    return fit(wanted, train, validation, folder=folder, resume=resume, callback=callback, log=log)
