"""Classifying images with a saved model."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
import numpy.typing as npt
import torch

from mixling.answers.labels import LabelSet
from mixling.answers.predictions import Prediction
from mixling.artifacts.artifact import Artifact, read_artifact
from mixling.artifacts.kinds import IMAGES
from mixling.data.batches import Inputs
from mixling.errors import DataError
from mixling.export.card import label_table
from mixling.metrics.base import ClassificationMetrics
from mixling.models.tensors import tensors_of
from mixling.research.saved import read_model
from mixling.research.vision.images import ImageShape, LabeledImages, Pixels, image_pixels, read_image, read_labeled
from mixling.research.vision.model import ImageModel, ImageModelConfig, build_image_model
from mixling.research.vision.training import image_logits
from mixling.tasks.classification import Classification

_COLORS = ((), (3,), (4,))  # what follows height and width in the shape of an array
_HINT = "`mixling train IMAGES --task image_classification` makes one that classifies images"


class ImageClassifier:
    """The image classifier of a run folder; needs torch.

    Args:
        folder: a finished run of `mixling train --task image_classification`.
        device: a name of torch.

    Raises:
        ConfigError: it is not the folder of such a run.
        ModelFileError: the folder is incomplete or damaged.
    """

    model: ImageModel
    config: ImageModelConfig
    labels: LabelSet

    def __init__(self, folder: str | Path, *, device: str = "cpu") -> None:
        self.device = torch.device(device)
        read_artifact(folder, self._read, hint=_HINT, kinds=(IMAGES,))
        self._ready()

    @classmethod
    def of(cls, model: ImageModel, config: ImageModelConfig, labels: LabelSet) -> Self:
        """Return the classifier of a model in memory."""
        made = cls.__new__(cls)
        made.device = next(model.parameters()).device
        made.model = model
        made.config = config
        made.labels = labels
        made._ready()
        return made

    def _read(self, artifact: Artifact) -> None:
        saved = artifact.saved
        self.config = artifact.parse(ImageModelConfig, saved["model"])
        self.labels = LabelSet.from_dict(saved["labels"])
        self.model = read_model(artifact, lambda: build_image_model(self.config, num_outputs=len(self.labels)))

    def _ready(self) -> None:
        self.model.to(self.device).eval()
        self.task = Classification(self.labels)
        self.shape = ImageShape(size=self.config.image_size, channels=self.config.channels)

    def predict(self, image: str | Path | Any) -> Prediction:
        """Return the label of an image and the probability of each.

        Args:
            image: a file, an image of Pillow, or an array (height, width[, 3]) of bytes.

        Raises:
            DataError: it cannot be read.
        """
        return self.predict_many([image])[0]

    def predict_many(self, images: Iterable[Any], *, batch_size: int = 64) -> list[Prediction]:
        """Return the predictions for images, in order; see `predict`."""
        return list(self.predict_stream(images, batch_size=batch_size))

    def predict_stream(self, images: Iterable[Any], *, batch_size: int = 64) -> Iterator[Prediction]:
        """Yield the predictions for images, which are read as needed; see `predict`."""
        batch: list[Pixels] = []
        for number, image in enumerate(images, 1):
            batch.append(self._pixels(image, number))
            if len(batch) == batch_size:
                yield from self._predictions(batch)
                batch = []
        if batch:
            yield from self._predictions(batch)

    def predict_files(self, files: Sequence[str]) -> list[tuple[str, Prediction | DataError]]:
        """Return each file with its prediction, or the error of reading it."""
        read: list[Pixels | DataError] = []
        for file in files:
            try:
                read.append(read_image(file, self.shape))
            except DataError as error:
                read.append(error)
        pixels = [item for item in read if not isinstance(item, DataError)]
        predictions = iter(self._predictions(pixels) if pixels else [])
        results = [item if isinstance(item, DataError) else next(predictions) for item in read]
        return list(zip(files, results, strict=True))

    def logits(self, pixels: Pixels) -> npt.NDArray[np.float32]:
        """Return the logits (images, C) of pixels (images, channels, height, width) of the model's size."""
        return image_logits(self._forward, pixels, self.config.num_tokens)

    def read(self, sources: Sequence[str], *, on_bad_row: Literal["error", "skip"] = "error") -> LabeledImages:
        """Return labeled images in the model's form; see `read_labeled`."""
        return read_labeled(sources, self.shape, on_bad_row=on_bad_row)

    def evaluate(self, images: LabeledImages) -> ClassificationMetrics:
        """Return the metrics on labeled images; labels that the model does not have count as errors."""
        task = self.task.with_unknown(images.labels)
        metrics = task.evaluate(list(self.logits(images.pixels)), task.targets(images.labels))
        assert isinstance(metrics, ClassificationMetrics)
        return metrics

    def _forward(self, batch: Inputs) -> torch.Tensor:
        logits: torch.Tensor = self.model(*tensors_of(batch.arguments, self.device))
        return logits

    def _predictions(self, batch: list[Pixels]) -> list[Prediction]:
        probabilities = self.task.probabilities(self.logits(np.stack(batch)))
        names = self.labels.names
        return [
            Prediction(
                truncated=False, label=names[row.argmax()], probabilities=dict(zip(names, row.tolist(), strict=True))
            )
            for row in probabilities
        ]

    def _pixels(self, image: Any, number: int) -> Pixels:
        if isinstance(image, str | Path):
            return read_image(image, self.shape)
        from PIL import Image

        where = f"image {number}"
        if isinstance(image, np.ndarray):
            if (
                image.dtype != np.uint8
                or image.ndim not in (2, 3)
                or 0 in image.shape
                or image.shape[2:] not in _COLORS
            ):
                raise DataError(
                    f"{where}: got an array {image.shape} of {image.dtype}; allowed: (height, width) or "
                    "(height, width, 3) of uint8"
                )
            image = Image.fromarray(image)
        elif not isinstance(image, Image.Image):
            raise DataError(f"{where}: got {type(image).__name__}; allowed: a path, an image of Pillow, or an array")
        return image_pixels(image, self.shape, where=where)


def image_card(config: Mapping[str, Any], report: Mapping[str, Any]) -> str:
    """Return the card of an image classifier; `report` is the content of its metrics.json."""
    model = config["model"]
    found = report["validation"]
    data = report["data"]
    best = report["best"]
    size = config["model"]["image_size"]
    augment = config["augment"]
    mixers = " and ".join(dict.fromkeys(mixer["type"] for layer in model["layers"] for mixer in layer["mixers"]))
    colors = "gray" if model["channels"] == 1 else "RGB"
    changes = ", ".join(f"{name} {value:g}" for name, value in augment.items()) or "none"
    return f"""# An image classifier with {len(data["labels"])} labels

{report["parameters"]:,} parameters; token mixing by {mixers} between patches of {model["patch_size"]} x
{model["patch_size"]} pixels. It reads images in {colors} of {size} x {size} pixels; of others it reads the largest
square in the middle, resized.

## How to use

```
mixling predict . image.png
mixling evaluate . IMAGES
```

```python
from mixling.research.vision import ImageClassifier

prediction = ImageClassifier(".").predict("image.png")
prediction.label, prediction.probabilities
```

## Results

Accuracy {found["accuracy"]:.4f}, macro F1 {found["macro_f1"]:.4f}, log-loss {found["log_loss"]:.4f} on
{found["n"]:,} validation images (epoch {best["epoch"]:g}).
{label_table(found, data)}
## Training

{data["training"]:,} images; changes while training: {changes}. The complete configuration is in `run.json`, the metrics
of each evaluation in `metrics.jsonl`.

## Limits

- It always gives one of its labels, also for images of something else.
- Images that differ from the training images in light, background or viewpoint may be misread.
"""
