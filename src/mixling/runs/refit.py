"""A second training on all labeled examples, those of validation too, for as many epochs as were best on them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from torch import Tensor, nn

from mixling.data.batches import TextSet
from mixling.data.dataset import Dataset
from mixling.data.splits import unseen
from mixling.runs.artifact import REFIT_FOLDER
from mixling.tasks.base import Task
from mixling.text.labels import Targets
from mixling.training.callbacks import Callback
from mixling.training.config import TrainConfig
from mixling.training.dataset_adapter import LabeledData, TrainingData
from mixling.training.distributed import DistributedContext
from mixling.training.files import CHECKPOINT
from mixling.training.loop import Trainer
from mixling.training.state import load_weights


class _Trained(Protocol):
    """What `mixling.runs.run.Parts` has."""

    model: nn.Module
    training: TrainConfig


def with_validation(data: LabeledData, validation: Dataset, task: Task) -> LabeledData:
    """Return the training data with the validation examples of known labels at their end, each of weight 1."""
    validation = (
        validation.subset(np.setdiff1d(np.arange(len(validation)), unseen(validation, task.labels.names)))
        if task.has_labels
        else validation
    )
    train = data.train.dataset
    joined = Dataset.from_examples(
        (example for part in (train, validation) for example in part), pairs=train.schema.pairs
    )
    weights = data.weights
    return LabeledData(
        objective=data.objective,
        train=TextSet(joined, data.train.encoder, keep=not train.spooled),
        train_targets=_joined(data.train_targets, task.targets(validation.targets)),
        validation=data.validation,
        validation_task=data.validation_task,
        validation_targets=data.validation_targets,
        token_dropout=data.token_dropout,
        augmenter=data.augmenter,
        weights=None if weights is None else np.concatenate([weights, np.ones(len(validation), np.float32)]),
    )


def _joined(first: Targets, second: Targets) -> Targets:
    if isinstance(first, np.ndarray) and isinstance(second, np.ndarray):
        return np.concatenate([first, second])
    return [*first, *second]


def refit(
    parts: _Trained,
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
    log: Callable[[str], None],
) -> dict[str, Any]:
    """Train the model of a run anew on other data, from its initial weights; or resume that.

    Args:
        first: the first training. This one has its epochs, and the learning rate that it had in each.
        step: the one after which the first training was best.
        folder: of the run, with the folder of its second training in it.

    Returns:
        what metrics.json has of it.
    """
    load_weights(parts.model, initial)
    per_epoch = math.ceil(len(data) / parts.training.batch_size)
    # Epochs are kept, not steps: of few examples one epoch more or less of each is much.
    steps = max(1, round(step / first.steps_per_epoch * per_epoch))
    total_steps = max(steps, round(first.total_steps / first.steps_per_epoch * per_epoch))
    log(f"refit: {len(data):,} examples, those of validation too, {steps / per_epoch:.3g} epochs")
    changes = {"steps": total_steps, "time_budget": None, "patience": None, "track": "none"}
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
