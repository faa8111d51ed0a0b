"""Training image classifiers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Unpack

import numpy as np

from mixling.answers.labels import LabelSet
from mixling.artifacts.files import CONFUSION_FILE, WEIGHTS_FILE
from mixling.errors import DataError
from mixling.export.plots import plot_confusion
from mixling.metrics.base import ClassificationMetrics
from mixling.models.model import count_parameters
from mixling.models.tensors import weights_of
from mixling.research.vision.classifier import ImageClassifier, image_card
from mixling.research.vision.config import ImageRunConfig
from mixling.research.vision.images import ImageShape, LabeledImages, read_labeled
from mixling.research.vision.kind import ImageRuns
from mixling.research.vision.model import build_image_model
from mixling.research.vision.training import ImageData, split_images
from mixling.runs.run import Run, RunArguments, RunFolder
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
    with RunFolder.open(ImageRuns.name, config, **arguments) as run:
        with run.preparing():
            train, validation = _read(config, run.log)
            labels = LabelSet.from_labels(train.labels, Classification.kind)
            counts = {name: train.labels.count(name) for name in labels.names}
            task = Classification(labels, config.train.loss, np.array(list(counts.values())))
            data = _image_data(config, task, train, validation)
            model = build_image_model(config.model, num_outputs=len(labels), seed=config.train.seed)
            parameters = count_parameters(model)
            size = f"{config.model.image_size} x {config.model.image_size} x {config.model.channels}"
            read = f"{len(train):,} training and {len(validation):,} validation images of {len(labels)} labels"
            run.log(f"{read}, {size}; {parameters:,} parameters")
        training = config.train.model_copy(update={"epochs": config.train.planned_epochs(len(train))})
        run.train(model, data, training, content=_content(train, validation))
        if not run.is_main:
            return None
        run.save(
            weights_of(model), {"model": config.model.to_dict(), "labels": labels.to_dict()}, parameters=parameters
        )
        metrics = ImageClassifier.of(model, config.model, labels).evaluate(validation)
        report = {
            "validation": metrics.to_dict(),
            "data": {"training": len(train), "validation": len(validation), "labels": counts},
            "epochs": training.epochs,
            "file_bytes": (run.folder / WEIGHTS_FILE).stat().st_size,
        }
        return run.finish(
            metrics,
            report,
            parameters=parameters,
            card=lambda whole: image_card(config.to_dict(), whole),
            draw=lambda folder: plot_confusion(metrics, folder / CONFUSION_FILE),
        )


def _image_data(
    config: ImageRunConfig, task: Classification, train: LabeledImages, validation: LabeledImages
) -> ImageData:
    validation_task = task.with_unknown(validation.labels)
    return ImageData(
        objective=task,
        train=train,
        targets=task.targets(train.labels),
        validation=validation,
        validation_task=validation_task,
        validation_targets=np.asarray(validation_task.targets(validation.labels)),
        augment=config.augment,
        num_patches=config.model.num_tokens,
    )


def _content(*parts: LabeledImages) -> Iterator[bytes]:
    for part in parts:
        yield part.hashes().tobytes()
        yield json.dumps(part.labels).encode()


def _read(config: ImageRunConfig, log: Log) -> tuple[LabeledImages, LabeledImages]:
    """Return training and validation images."""
    data = config.data
    shape = ImageShape(size=config.model.image_size, channels=config.model.channels)
    images = read_labeled(data.train, shape, on_bad_row=data.on_bad_row)
    if data.validation:
        train = images
        validation = read_labeled(data.validation, shape, on_bad_row=data.on_bad_row)
    else:
        train, validation = split_images(images, fraction=data.validation_fraction, seed=config.train.seed)
    for message in (*images.skipped, *validation.skipped)[:3]:
        log(f"skipped: {message}")
    if new := sorted(set(validation.labels) - set(train.labels)):
        log(f"no training image has the label {new[0]!r} of validation images, which count as errors")
    if len(set(train.labels)) < 2:
        raise DataError(f"every image has the same label, {train.labels[0]!r}; at least two are needed")
    return train, validation
