"""Training image classifiers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Unpack

import numpy as np

from mixling.answers.labels import LabelSet
from mixling.artifacts.artifact import IMAGES
from mixling.artifacts.files import CONFUSION_FILE, WEIGHTS_FILE
from mixling.errors import DataError
from mixling.export.plots import plot_confusion
from mixling.metrics.base import ClassificationMetrics
from mixling.research.vision.classifier import ImageClassifier, image_card
from mixling.research.vision.config import ImageRunConfig
from mixling.research.vision.images import ImageShape, LabeledImages, read_labeled
from mixling.research.vision.model import ImageModel, build_image_model
from mixling.research.vision.training import ImageData, split_images
from mixling.runs.parts import Parts, RunArguments, Stage
from mixling.runs.run import Run, execute
from mixling.tasks.classification import Classification
from mixling.training.callbacks import Log


def fit_images(config: ImageRunConfig, **arguments: Unpack[RunArguments]) -> Run[ClassificationMetrics] | None:
    """Train an image classifier and write its folder.

    Args:
        config: resolved (`mixling.runs.resolve.spec`); to resume a run, the configuration of its record.
        options: as of `fit`; to resume a run, the images are read again.

    Returns:
        The run, with the validation metrics of the saved model; None in processes other than the main one.

    Raises:
        UserError: see `read_labeled` and `Trainer.fit`.
    """
    return execute(IMAGES, config, lambda stage: _Images(config, stage), **arguments)


class _Images(Parts[ClassificationMetrics]):
    """An image classifier and the images that it is trained on."""

    model: ImageModel
    data: ImageData

    def __init__(self, config: ImageRunConfig, stage: Stage) -> None:
        self.config = config
        train, validation = _read(config, stage.log)
        self.labels = LabelSet.from_labels(train.labels, Classification.kind)
        counts = np.array([train.labels.count(name) for name in self.labels.names])
        task = Classification(self.labels, config.train.loss, counts)
        self.training = config.train.model_copy(update={"epochs": config.train.planned_epochs(len(train))})
        self.model = build_image_model(config.model, num_outputs=len(self.labels), seed=config.train.seed)
        validation_task = task.with_unknown(validation.labels)
        self.data = ImageData(
            objective=task,
            train=train,
            targets=task.targets(train.labels),
            validation=validation,
            validation_task=validation_task,
            validation_targets=np.asarray(validation_task.targets(validation.labels)),
            augment=config.augment,
            num_patches=config.model.num_tokens,
        )
        stage.log(
            f"{len(train):,} training and {len(validation):,} validation images of {len(self.labels)} labels, "
            f"{config.model.image_size} x {config.model.image_size} x {config.model.channels}; "
            f"{self.parameters:,} parameters"
        )

    def content(self) -> Iterator[bytes]:
        for part in (self.data.train, self.data.validation):
            yield part.hashes().tobytes()
            yield json.dumps(part.labels).encode()

    def save(self, folder: Path) -> dict[str, Any]:
        return {"model": self.config.model.to_dict(), "labels": self.labels.to_dict()}

    def evaluate(self, folder: Path, best: dict[str, Any], log: Log) -> tuple[ClassificationMetrics, dict[str, Any]]:
        saved = ImageClassifier.of(self.model, self.config.model, self.labels)
        metrics = saved.evaluate(self.data.validation)
        counts = {name: self.data.train.labels.count(name) for name in self.labels.names}
        return metrics, {
            "validation": metrics.to_dict(),
            "data": {"training": len(self.data.train), "validation": len(self.data.validation), "labels": counts},
            "epochs": self.training.epochs,
            "file_bytes": (folder / WEIGHTS_FILE).stat().st_size,
        }

    def draw(self, folder: Path, metrics: ClassificationMetrics) -> None:
        plot_confusion(metrics, folder / CONFUSION_FILE)

    def card(self, report: dict[str, Any]) -> str:
        return image_card(self.config.to_dict(), report)


def _read(config: ImageRunConfig, log: Log) -> tuple[LabeledImages, LabeledImages]:
    """Return training and validation images."""
    data = config.data
    shape = ImageShape(size=config.model.image_size, channels=config.model.channels)
    images = read_labeled(data.train, shape, on_bad_row=data.on_bad_row)
    if data.validation:
        train, validation = images, read_labeled(data.validation, shape, on_bad_row=data.on_bad_row)
    else:
        train, validation = split_images(images, fraction=data.validation_fraction, seed=config.train.seed)
    for message in (*images.skipped, *validation.skipped)[:3]:
        log(f"skipped: {message}")
    if new := sorted(set(validation.labels) - set(train.labels)):
        log(f"no training image has the label {new[0]!r} of validation images, which count as errors")
    if len(set(train.labels)) < 2:
        raise DataError(f"every image has the same label, {train.labels[0]!r}; at least two are needed")
    return train, validation
