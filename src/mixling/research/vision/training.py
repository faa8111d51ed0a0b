"""Training data of images, as the training loop uses it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from jaxtyping import Float
from torch import Tensor, nn

from mixling.data.batches import Indices
from mixling.data.splits import stratified
from mixling.errors import DataError, TrainingError
from mixling.research.vision.augmentation import Augmentation, ImageAugmentationConfig
from mixling.research.vision.images import LabeledImages, Pixels
from mixling.tasks.base import Task
from mixling.tasks.classification import Classification
from mixling.training.backends.pytorch import Forward, TorchBackend
from mixling.training.dataset_adapter import Targeted, TrainingData, mean_loss

_BATCH = 256  # of evaluation


@dataclass(frozen=True)
class ImageBatch:
    """Images from -1 to 1 and the number of their patches."""

    images: Float[Tensor, "B channels height width"]
    num_patches: int

    @property
    def arguments(self) -> tuple[Tensor | None, ...]:
        """The arguments of `ImageModel.forward`."""
        return (self.images,)

    @property
    def num_tokens(self) -> int:
        """The number of patches of all images."""
        return len(self.images) * self.num_patches


@dataclass(frozen=True, kw_only=True)
class ImageData(TrainingData):
    """Training and validation images.

    Attributes:
        targets, validation_targets: ids of labels.
        validation_task: the task that `validation_targets` belong to: also with labels that training never saw.
        augment: changes of training images.
        num_patches: N.
    """

    objective: Classification
    train: LabeledImages
    targets: npt.NDArray[np.int64]
    validation: LabeledImages
    validation_task: Task
    validation_targets: npt.NDArray[np.int64]
    augment: ImageAugmentationConfig
    num_patches: int

    def __len__(self) -> int:
        return len(self.train)

    def epoch(self, number: int, batch_size: int, *, seed: int) -> list[Indices]:
        order = np.random.default_rng([seed, 0, number]).permutation(len(self))
        return [order[first : first + batch_size] for first in range(0, len(self), batch_size)]

    def batch(self, indices: Indices, chosen: Indices, *, seed: int, step: int) -> Targeted:
        augmentation = Augmentation(self.augment, size=len(indices), seed=[seed, 5, step])
        # Of a mixed batch the partners of the chosen images are read as well, which may be other processes'.
        partners = augmentation.partners[chosen] if augmentation.way else chosen
        read, where = np.unique(np.concatenate([chosen, partners]), return_inverse=True)
        own, other = np.split(where, [len(chosen)])
        images = augmentation.change(as_floats(self.train.pixels[indices[read]]), read)
        mixed, fraction = augmentation.mix(images[own], images[other])
        targets = torch.from_numpy(self.targets[indices[chosen]])
        if augmentation.way:
            others = torch.from_numpy(self.targets[indices[partners]])
            targets = self._soft(targets, others, fraction)
        return ImageBatch(centered(mixed), self.num_patches), targets, None

    def _soft(self, own: Tensor, others: Tensor, fraction: float) -> Tensor:
        """Return the weighted mean of two labels (B, C), smoothed, which the loss does to hard targets only."""
        count = len(self.objective.labels)
        smoothing = self.objective.loss_config.label_smoothing
        first, second = (nn.functional.one_hot(item, count).float() for item in (own, others))
        return (1 - smoothing) * torch.lerp(second, first, fraction) + smoothing / count

    def evaluate(self, model: TorchBackend) -> tuple[dict[str, float], float]:
        logits = image_logits(model.forward, self.validation.pixels, self.num_patches)
        if not np.isfinite(logits).all():
            raise TrainingError("an output on validation data is not finite")
        metrics = self.validation_task.evaluate(list(logits), self.validation_targets, tables=False)
        return metrics.numbers(), mean_loss(self.objective, list(logits), self.validation_targets)

    def where(self, index: int) -> tuple[str, int] | None:
        return self.train.files[index]


def split_images(images: LabeledImages, *, fraction: float, seed: int) -> tuple[LabeledImages, LabeledImages]:
    """Set about `fraction` of the images of each label aside; equal images stay on one side.

    Raises:
        DataError: there are too few images of each label.
    """
    names = {name: number for number, name in enumerate(dict.fromkeys(images.labels))}
    classes = np.array([names[label] for label in images.labels])
    aside = stratified(images.hashes(), classes, fraction=fraction, seed=seed)
    if not aside.any():
        raise DataError(
            f"{len(images)} images of {len(names)} labels are too few to set some aside for validation; provide more, "
            "or your own validation images (--validation DIR)"
        )
    return images.subset(np.flatnonzero(~aside)), images.subset(np.flatnonzero(aside))


def as_floats(pixels: Pixels) -> Float[Tensor, "B channels height width"]:
    """Return pixels as numbers from 0 to 1."""
    return torch.from_numpy(np.ascontiguousarray(pixels)).float() / 255


def centered(images: Float[Tensor, "B channels height width"]) -> Float[Tensor, "B channels height width"]:
    """Return numbers from 0 to 1 as the model reads them: from -1 to 1."""
    return images * 2 - 1


@torch.inference_mode()
def image_logits(forward: Forward, pixels: Pixels, num_patches: int) -> npt.NDArray[np.float32]:
    """Return the logits (images, C) of pixels (images, channels, height, width)."""
    parts = [
        forward(ImageBatch(centered(as_floats(pixels[first : first + _BATCH])), num_patches)).float().cpu().numpy()
        for first in range(0, len(pixels), _BATCH)
    ]
    return np.concatenate(parts)
