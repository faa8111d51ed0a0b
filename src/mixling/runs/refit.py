"""A second training on all labeled examples, including those of validation, for the best number of epochs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from mixling.answers.labels import Targets
from mixling.artifacts.files import REFIT_FOLDER
from mixling.data.batches import TextSet
from mixling.data.dataset import Dataset
from mixling.data.splits import unseen
from mixling.runs.parts import Parts
from mixling.tasks.base import Task
from mixling.training.callbacks import Callback, Log
from mixling.training.dataset_adapter import LabeledData, TrainingData
from mixling.training.distributed import DistributedContext
from mixling.training.files import CHECKPOINT
from mixling.training.loop import Trainer
from mixling.training.state import restore_weights


def without_unseen(examples: Dataset, task: Task) -> Dataset:
    """Return the examples whose labels the task knows."""
    if not task.has_labels:
        return examples
    return examples.subset(np.setdiff1d(np.arange(len(examples)), unseen(examples, task.labels.names)))


def with_validation(data: LabeledData, validation: Dataset, task: Task) -> LabeledData:
    """Return the training data followed by the validation examples with known labels, each with weight 1."""
    validation = without_unseen(validation, task)
    train = data.train.dataset
    joined = Dataset.from_examples(
        (example for part in (train, validation) for example in part), pairs=train.schema.pairs
    )
    weights = data.weights
    return replace(
        data,
        train=TextSet(joined, data.train.encoder, keep=not train.spooled),
        train_targets=_joined(data.train_targets, task.targets(validation.targets)),
        weights=None if weights is None else np.concatenate([weights, np.ones(len(validation), np.float32)]),
    )


def _joined(first: Targets, second: Targets) -> Targets:
    if isinstance(first, np.ndarray) and isinstance(second, np.ndarray):
        return np.concatenate([first, second])
    return [*first, *second]


def refit(
    parts: Parts[Any],
    data: TrainingData,
    *,
    initial: Mapping[str, Tensor],
    first: Trainer,
    step: int,
    folder: Path,
    fingerprint: str,
    command: str,
    distributed: DistributedContext,
    callback: Callback | None,
    log: Log,
) -> dict[str, Any]:
    """Train the model of a run anew on other data, from its initial weights; or resume this training.

    Args:
        initial: the initial weights of the model.
        first: the first training; the second one has the same epochs, and the same learning rate in each of them.
        step: the step of the best evaluation of the first training.
        folder: the run folder; the second training has a folder in it.
        fingerprint: that of the first training.
        command: the command line that resumes the run.

    Returns:
        The entry of metrics.json about the refit.
    """
    restore_weights(parts.model, initial)
    per_epoch = math.ceil(len(data) / parts.training.batch_size)
    # The same epochs, not the same steps: with few examples an epoch more or less matters.
    steps = max(1, round(step / first.steps_per_epoch * per_epoch))
    total_steps = max(steps, round(first.total_steps / first.steps_per_epoch * per_epoch))
    log(f"refit: {len(data):,} examples, including those of validation, {steps / per_epoch:.3g} epochs")
    changes = {"steps": total_steps, "time_budget": None, "patience": None, "track": ()}
    location = folder / REFIT_FOLDER
    trainer = Trainer(
        parts.model, data, parts.training.model_copy(update=changes),
        folder=location,
        command=command,
        fingerprint=f"{fingerprint} refit",
        distributed=distributed,
        callback=callback,
        last_step=steps,
    )  # fmt: skip
    trainer.fit(resume=distributed.broadcast([(location / CHECKPOINT).exists()])[0] > 0)
    return {"examples": len(data), "steps": steps}
