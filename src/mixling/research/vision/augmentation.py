"""Augmentation of training images: shifts, flips, RandAugment, Mixup and CutMix, on tensors.

Source: gMLP, Table 7, which has RandAugment (arXiv:1909.13719), Mixup (arXiv:1710.09412), CutMix (arXiv:1905.04899) and
stochastic depth; that is a value of the model (`drop_path`). All randomness is a function of a generator's seed, and
each image's changes of its index in the batch, so that several processes change a batch as one does.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import torch
from jaxtyping import Float
from pydantic import Field
from torch import Tensor
from torch.nn import functional as F

from mixling.config import Config


class ImageAugmentationConfig(Config):
    """Changes of training images, drawn anew at each step."""

    shift: float = Field(
        default=0.08, ge=0, lt=1, description="maximum shift by whole pixels, as a fraction of the image"
    )
    flip: float = Field(
        default=0.0, ge=0, le=1, description="probability of a mirror image; 0 where left and right matter"
    )
    rand_augment: int = Field(
        default=0, ge=0, le=8, description="number of RandAugment's operations on each image; 0: none"
    )
    magnitude: float = Field(default=9.0, ge=0, le=10, description="magnitude of RandAugment's operations")
    mixup: float = Field(default=0.0, ge=0, description="alpha of Mixup's Beta distribution; 0: none")
    cutmix: float = Field(default=0.0, ge=0, description="alpha of CutMix's Beta distribution; 0: none")
    mixing: float = Field(
        default=1.0, ge=0, le=1, description="probability that a batch is mixed, by either if both are given"
    )


Images = Float[Tensor, "B channels height width"]
_Values = npt.NDArray[np.float64]
_FILL = 0.0  # of what comes in from outside the image


def _affine(images: Images, matrices: Float[Tensor, "B 2 3"]) -> Images:
    """Sample each image at A p, where p are its pixels' coordinates from -1 to 1; outside is black."""
    grid = F.affine_grid(matrices, list(images.shape), align_corners=False)
    return F.grid_sample(images, grid, align_corners=False)


def _matrices(count: int) -> Tensor:
    return torch.eye(2, 3).repeat(count, 1, 1)


def _rotate(images: Images, amount: Tensor) -> Images:
    angles = amount * math.radians(30)
    turned = _matrices(len(images))
    turned[:, 0, 0] = turned[:, 1, 1] = angles.cos()
    turned[:, 0, 1], turned[:, 1, 0] = -angles.sin(), angles.sin()
    return _affine(images, turned)


def _entry(row: int, column: int, most: float) -> Callable[[Images, Tensor], Images]:
    def change(images: Images, amount: Tensor) -> Images:
        matrices = _matrices(len(images))
        matrices[:, row, column] = amount * most
        return _affine(images, matrices)

    return change


def _blend(images: Images, other: Tensor, amount: Tensor) -> Images:
    """Return other + (1 + 0.9 amount) (images - other), as Pillow's enhancements."""
    factor = 1 + 0.9 * amount[:, None, None, None]
    return (other + factor * (images - other)).clamp(0, 1)


def _gray(images: Images) -> Tensor:
    if images.shape[1] != 3:
        return images.mean(1, keepdim=True)
    weights = torch.tensor([0.299, 0.587, 0.114])
    return torch.einsum("bchw,c->bhw", images, weights)[:, None]


def _sharpness(images: Images, amount: Tensor) -> Images:
    kernel = torch.tensor([[1.0, 1, 1], [1, 5, 1], [1, 1, 1]]) / 13
    channels = images.shape[1]
    smooth = F.conv2d(F.pad(images, (1, 1, 1, 1), mode="replicate"), kernel.repeat(channels, 1, 1, 1), groups=channels)
    return _blend(images, smooth, amount)


def _posterize(images: Images, amount: Tensor) -> Images:
    levels = 2 ** (8 - (4 * amount.abs()).round())[:, None, None, None]
    return ((images * 255 / 256 * levels).floor() * (256 / levels) / 255).clamp(0, 1)


def _solarize(images: Images, amount: Tensor) -> Images:
    return torch.where(images >= 1 - amount.abs()[:, None, None, None], 1 - images, images)


def _auto_contrast(images: Images, amount: Tensor) -> Images:
    low = images.amin((2, 3), keepdim=True)
    high = images.amax((2, 3), keepdim=True)
    return torch.where(high > low, (images - low) / (high - low).clamp(min=1e-6), images)


# RandAugment's, without equalization; amounts are from -1 to 1 at magnitude 10.
OPERATIONS: dict[str, Callable[[Images, Tensor], Images]] = {
    "identity": lambda images, amount: images,
    "auto_contrast": _auto_contrast,
    "invert": lambda images, amount: 1 - images,
    "rotate": _rotate,
    "posterize": _posterize,
    "solarize": _solarize,
    "color": lambda images, amount: _blend(images, _gray(images), amount),
    "contrast": lambda images, amount: _blend(images, _gray(images).mean((1, 2, 3), keepdim=True), amount),
    "brightness": lambda images, amount: _blend(images, torch.zeros(()), amount),
    "sharpness": _sharpness,
    "shear_x": _entry(0, 1, 0.3),
    "shear_y": _entry(1, 0, 0.3),
    "translate_x": _entry(0, 2, 0.66),  # a third of the width, which is 2
    "translate_y": _entry(1, 2, 0.66),
}


class Augmentation:
    """Draws and applies the changes of one batch.

    Args:
        config: which changes.
        size: number of images in the whole batch.
        seed: of all draws.
    """

    def __init__(self, config: ImageAugmentationConfig, *, size: int, seed: list[int]) -> None:
        self.config = config
        rng = np.random.default_rng(seed)
        self._shifts = rng.uniform(-1, 1, (size, 2)) * config.shift
        self._flips = rng.random(size) < config.flip
        layers = config.rand_augment
        self._operations = rng.integers(len(OPERATIONS), size=(layers, size))
        self._amounts = rng.choice([-1.0, 1.0], (layers, size)) * config.magnitude / 10
        self.partners = rng.permutation(size)
        alphas = [("mixup", config.mixup), ("cutmix", config.cutmix)]
        ways = [(name, alpha) for name, alpha in alphas if alpha > 0]
        self.way = ""
        self.fraction = 1.0
        if ways and rng.random() < config.mixing:
            self.way, alpha = ways[rng.integers(len(ways))]
            self.fraction = float(rng.beta(alpha, alpha))
        self._center = rng.random(2)

    def change(self, images: Images, chosen: npt.NDArray[np.int64]) -> Images:
        """Return the images changed one by one.

        Args:
            images: from 0 to 1.
            chosen: their indices in the whole batch.
        """
        images = self._moved(images, self._shifts[chosen], self._flips[chosen])
        for operations, amounts in zip(self._operations[:, chosen], self._amounts[:, chosen], strict=True):
            out = images.clone()
            for number in np.unique(operations):
                rows = torch.from_numpy(np.flatnonzero(operations == number))
                amount = torch.from_numpy(amounts[operations == number]).float()
                out[rows] = list(OPERATIONS.values())[number](images[rows], amount)
            images = out
        return images

    def _moved(self, images: Images, shifts: _Values, flips: npt.NDArray[np.bool_]) -> Images:
        count, _, height, width = images.shape
        if flips.any():
            images = torch.where(torch.from_numpy(flips)[:, None, None, None], images.flip(-1), images)
        moves = np.rint(shifts * [height, width]).astype(np.int64)
        if not moves.any():
            return images
        down, right = (int(most) for most in np.abs(moves).max(0))
        padded = F.pad(images, (right, right, down, down), value=_FILL)
        rows = torch.from_numpy(moves[:, :1] + down) + torch.arange(height)
        columns = torch.from_numpy(moves[:, 1:] + right) + torch.arange(width)
        return padded[torch.arange(count)[:, None, None], :, rows[:, :, None], columns[:, None, :]].movedim(-1, 1)

    def mix(self, images: Images, others: Images) -> tuple[Images, float]:
        """Return images mixed with their partners, and the fraction of their own targets that remains.

        Mixup returns the weighted mean; CutMix pastes a box of the partner whose center is uniform, and the fraction is
        the mean of the pixels outside of it.
        """
        if not self.way:
            return images, 1.0
        if self.way == "mixup":
            return torch.lerp(others, images, self.fraction), self.fraction
        top, bottom, left, right = self._box(images.shape[2], images.shape[3])
        out = images.clone()
        out[:, :, top:bottom, left:right] = others[:, :, top:bottom, left:right]
        inside = (bottom - top) * (right - left)
        return out, 1 - inside / (images.shape[2] * images.shape[3])

    def _box(self, height: int, width: int) -> tuple[int, int, int, int]:
        side = math.sqrt(1 - self.fraction)
        (top, bottom), (left, right) = (
            (max(0, round(center - side * length / 2)), min(length, round(center + side * length / 2)))
            for center, length in zip(self._center * [height, width], (height, width), strict=True)
        )
        return top, bottom, left, right
