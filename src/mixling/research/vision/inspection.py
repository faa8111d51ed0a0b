"""Preparing image classifiers for `mixling.research.inspect.weights`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from mixling.research.inspect.weights import Inspected, Pass
from mixling.research.vision.classifier import ImageClassifier
from mixling.research.vision.images import read_image
from mixling.research.vision.training import as_floats, centered


def of_classifier(folder: Path, images: Sequence[object]) -> Inspected:
    """Return the model of an image run; `images` are files, whose patches are the tokens.

    Raises:
        DataError: a file cannot be read.
    """
    classifier = ImageClassifier(folder)
    mask = torch.ones(1, classifier.config.num_tokens, dtype=torch.bool)

    def batch(image: object) -> torch.Tensor:
        return centered(as_floats(np.stack([read_image(str(image), classifier.shape)])))

    passes = (Pass(lambda image=image: classifier.model(batch(image)), {"encoder": mask}) for image in images)  # type: ignore[misc]
    return Inspected(classifier.model, {"encoder": classifier.model.encoder}, passes)
