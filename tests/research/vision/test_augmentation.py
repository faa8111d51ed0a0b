"""Changes of images against Pillow, NumPy and their equations."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from PIL import Image, ImageEnhance, ImageOps
from torch import Tensor

from mixling import ConfigError
from mixling.config import parse
from mixling.research.vision import ImageAugmentationConfig
from mixling.research.vision.augmentation import OPERATIONS, Augmentation

SIZE = 9


def bytes_of(channels: int = 3, count: int = 2, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (count, channels, SIZE, SIZE), dtype=np.uint8)


def floats(pixels: np.ndarray) -> Tensor:
    return torch.from_numpy(pixels).float() / 255


def by_pillow(pixels: np.ndarray, change) -> Tensor:
    images = (Image.fromarray(image.transpose(1, 2, 0)) for image in pixels)
    return floats(np.stack([np.asarray(change(image)).transpose(2, 0, 1) for image in images]))


def drawn(size: int = 64, seed: int = 0, **values: object) -> Augmentation:
    given = {"shift": 0.0, **values}
    return Augmentation(ImageAugmentationConfig(**given), size=size, seed=[seed])


@pytest.mark.parametrize("amount", [-0.9, 0.5])
@pytest.mark.parametrize(
    ("name", "enhance"),
    [
        ("brightness", ImageEnhance.Brightness),
        ("contrast", ImageEnhance.Contrast),
        ("color", ImageEnhance.Color),
        ("sharpness", ImageEnhance.Sharpness),
    ],
)
def test_enhancements_are_pillows(name: str, enhance, amount: float) -> None:
    pixels = bytes_of()
    found = OPERATIONS[name](floats(pixels), torch.full((2,), amount))
    expected = by_pillow(pixels, lambda image: enhance(image).enhance(1 + 0.9 * amount))
    inner = (..., slice(1, -1), slice(1, -1)) if name == "sharpness" else ...  # Pillow leaves the edge unsmoothed
    torch.testing.assert_close(found[inner], expected[inner], rtol=0, atol=2.5 / 255)  # Pillow rounds twice


@pytest.mark.parametrize(
    ("name", "amount", "change"),
    [
        ("invert", 0.3, ImageOps.invert),
        ("posterize", 1.0, lambda image: ImageOps.posterize(image, 4)),
        ("posterize", -0.5, lambda image: ImageOps.posterize(image, 6)),
        ("solarize", 0.4, lambda image: ImageOps.solarize(image, 153)),
        ("auto_contrast", 0.0, ImageOps.autocontrast),
    ],
)
def test_operations_are_pillows(name: str, amount: float, change) -> None:
    pixels = bytes_of() // 2 + 40
    found = OPERATIONS[name](floats(pixels), torch.full((2,), amount))
    torch.testing.assert_close(found, by_pillow(pixels, change), rtol=0, atol=1.01 / 255)


def test_movements_are_turns_and_shifts_by_pixels() -> None:
    images = floats(bytes_of())
    turned = OPERATIONS["rotate"](images, torch.full((2,), 3.0))  # 90 degrees
    torch.testing.assert_close(turned, torch.rot90(images, 1, (2, 3)), rtol=0, atol=1e-5)
    moved = OPERATIONS["translate_x"](images, torch.full((2,), 2 * 2 / SIZE / 0.66))  # two pixels
    torch.testing.assert_close(moved[..., :-2], images[..., 2:], rtol=0, atol=1e-5)
    moved = OPERATIONS["translate_y"](images, torch.full((2,), -2 / SIZE / 0.66))
    torch.testing.assert_close(moved[..., 1:, :], images[..., :-1, :], rtol=0, atol=1e-5)
    middle = SIZE // 2
    for name, axis in (("shear_x", 2), ("shear_y", 3)):
        sheared = OPERATIONS[name](images, torch.ones(2))
        torch.testing.assert_close(sheared.select(axis, middle), images.select(axis, middle), rtol=0, atol=1e-5)
        assert not torch.allclose(sheared, images, atol=0.1)


@pytest.mark.parametrize("name", [name for name in OPERATIONS if name not in ("invert", "auto_contrast", "posterize")])
def test_nothing_is_changed_by_an_amount_of_zero(name: str) -> None:
    images = floats(bytes_of(channels=1)).clamp(max=0.99)
    torch.testing.assert_close(OPERATIONS[name](images, torch.zeros(2)), images, rtol=0, atol=1e-5)


def test_shifts_are_by_whole_pixels_and_fill_with_black() -> None:
    images, found = floats(bytes_of(1, 32)), drawn(32, shift=0.25)
    changed, seen = found.change(images, np.arange(32)), set()
    for before, after in zip(images[:, 0], changed[:, 0], strict=True):
        options = {(down, right): torch.zeros(SIZE, SIZE) for down in range(-2, 3) for right in range(-2, 3)}
        for (down, right), expected in options.items():
            for y in range(SIZE):
                for x in range(SIZE):
                    if 0 <= y + down < SIZE and 0 <= x + right < SIZE:
                        expected[y, x] = before[y + down, x + right]
        (which,) = [key for key, expected in options.items() if torch.equal(expected, after)]
        seen.add(which)
    assert len(seen) > 10


def test_half_of_the_images_are_mirrored() -> None:
    images = floats(bytes_of(3, 64))
    changed = drawn(flip=0.5).change(images, np.arange(64))
    mirrored = [torch.equal(after, before.flip(-1)) for before, after in zip(images, changed, strict=True)]
    same = [torch.equal(after, before) for before, after in zip(images, changed, strict=True)]
    assert all(a != b for a, b in zip(mirrored, same, strict=True))
    assert 20 < sum(mirrored) < 44


def test_an_images_change_depends_on_its_index_only() -> None:
    """So several processes change a batch as one does."""
    images = floats(bytes_of(3, 12))
    values = {"shift": 0.2, "flip": 0.5, "rand_augment": 2}
    whole = drawn(12, **values).change(images, np.arange(12))
    chosen = np.array([9, 2, 5])
    torch.testing.assert_close(drawn(12, **values).change(images[chosen], chosen), whole[chosen], rtol=0, atol=1e-6)
    assert not torch.equal(drawn(12, seed=1, **values).change(images, np.arange(12)), whole)
    assert float(whole.min()) >= 0
    assert float(whole.max()) <= 1


def test_mixup_is_the_weighted_mean() -> None:
    images, found = floats(bytes_of(3, 8)), drawn(8, mixup=0.8)
    others = images[found.partners]
    mixed, fraction = found.mix(images, others)
    assert 0 < fraction < 1
    torch.testing.assert_close(mixed, fraction * images + (1 - fraction) * others)


def test_cutmix_pastes_a_box_and_counts_its_pixels() -> None:
    areas = []
    for seed in range(40):
        found = drawn(4, seed=seed, cutmix=1.0)
        mixed, fraction = found.mix(torch.zeros(4, 1, SIZE, SIZE), torch.ones(4, 1, SIZE, SIZE))
        assert fraction == pytest.approx(1 - float(mixed.mean()))
        rows, columns = (mixed[0, 0].amax(axis) for axis in (1, 0))
        torch.testing.assert_close(mixed[0, 0], rows[:, None] * columns)  # one box
        side = math.sqrt(1 - found.fraction)
        assert float(rows.sum()) <= side * SIZE + 1
        areas.append(fraction)
    assert len(set(areas)) > 15


def test_a_batch_is_mixed_by_one_or_the_other() -> None:
    ways = [drawn(2, seed=seed, mixup=0.8, cutmix=1.0, mixing=0.8).way for seed in range(100)]
    assert {"": 8, "mixup": 25, "cutmix": 25}.items() <= {
        way: min(ways.count(way), least) for way, least in {"": 8, "mixup": 25, "cutmix": 25}.items()
    }.items()
    assert drawn(2).way == ""


def test_values_beyond_their_range_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"flip: got 2"):
        parse(ImageAugmentationConfig, {"flip": 2}, where="augment")
