"""Images from folders and IDX files: their pixels, their labels, and what cannot be read."""

from __future__ import annotations

import gzip
import struct
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from mixling import DataError
from mixling.research.vision import ImageShape, read_labeled
from mixling.research.vision import images as module
from mixling.research.vision.images import first_shape, read_image

GRAY, COLOR = ImageShape(size=4, channels=1), ImageShape(size=4, channels=3)


def saved(path: Path, pixels: object, mode: str | None = None) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    image = Image.fromarray(np.asarray(pixels, np.uint8))
    (image if mode is None else image.convert(mode)).save(path)
    return path


def ramp(height: int = 4, width: int = 4) -> np.ndarray:
    return np.arange(height * width, dtype=np.uint8).reshape(height, width) * 5


def idx(folder: Path, pixels: np.ndarray, labels: list[int], *, suffix: str = "") -> Path:
    path = folder / f"train-images-idx3-ubyte{suffix}"
    header = struct.pack(">4B3I", 0, 0, 8, 3, *pixels.shape)
    parts = {path: header + pixels.tobytes()}
    parts[folder / f"train-labels-idx1-ubyte{suffix}"] = struct.pack(">4BI", 0, 0, 8, 1, len(labels)) + bytes(labels)
    for name, content in parts.items():
        name.write_bytes(gzip.compress(content) if suffix else content)
    return path


def test_labels_are_the_names_of_folders(tmp_path: Path) -> None:
    saved(tmp_path / "dog" / "deep" / "2.PNG", ramp())
    saved(tmp_path / "dog" / "1.png", ramp() + 1)
    saved(tmp_path / "cat" / "3.png", ramp() + 2)
    saved(tmp_path / ".cache" / "4.png", ramp())
    (tmp_path / "cat" / "notes.txt").write_text("not an image")
    found = read_labeled([str(tmp_path)], GRAY)
    assert found.labels == ("cat", "dog", "dog")
    assert [Path(path).name for path, _ in found.files] == ["3.png", "1.png", "2.PNG"]
    np.testing.assert_array_equal(found.pixels, np.stack([ramp() + 2, ramp() + 1, ramp()])[:, None])


def test_of_other_shapes_the_square_in_the_middle_is_read(tmp_path: Path) -> None:
    wide = saved(tmp_path / "wide.png", np.hstack([np.full((4, 2), 255), ramp(), np.full((4, 2), 255)]))
    np.testing.assert_array_equal(read_image(wide, GRAY)[0], ramp())
    tall = saved(
        tmp_path / "tall.png", np.vstack([np.full((8, 8), 99), np.repeat(np.repeat(ramp(), 2, 0), 2, 1)] * 2)[4:20]
    )
    assert read_image(tall, GRAY).shape == (1, 4, 4)
    large = saved(tmp_path / "large.png", np.full((40, 40), 77))
    np.testing.assert_array_equal(read_image(large, GRAY), np.full((1, 4, 4), 77))


def test_colors_become_gray_and_gray_becomes_colors(tmp_path: Path) -> None:
    red = saved(tmp_path / "red.png", np.broadcast_to([255, 0, 0], (4, 4, 3)))
    np.testing.assert_array_equal(read_image(red, COLOR)[:, 0, 0], [255, 0, 0])
    np.testing.assert_array_equal(read_image(red, GRAY), np.full((1, 4, 4), 76))  # 0.299 of 255
    gray = saved(tmp_path / "gray.png", ramp())
    np.testing.assert_array_equal(read_image(gray, COLOR), np.repeat(ramp()[None], 3, 0))


def test_what_is_transparent_is_white(tmp_path: Path) -> None:
    pixels = np.zeros((4, 4, 4), np.uint8)
    pixels[0, 0] = [10, 20, 30, 255]
    found = read_image(saved(tmp_path / "clear.png", pixels), COLOR)
    assert found[:, 0, 0].tolist() == [10, 20, 30]
    assert found[:, 1, 1].tolist() == [255, 255, 255]


def test_of_16_bits_the_upper_eight_are_read(tmp_path: Path) -> None:
    Image.fromarray((ramp().astype(np.uint16) << 8) + 7).save(tmp_path / "deep.png")
    np.testing.assert_array_equal(read_image(tmp_path / "deep.png", GRAY)[0], ramp())


@pytest.mark.parametrize("mode", ["I;16B", "I"])
def test_other_modes_of_16_bits(tmp_path: Path, mode: str) -> None:
    values = (ramp().astype(np.int32) << 8) + 7
    if mode == "I":
        Image.fromarray(values).save(tmp_path / "deep.tif")
    else:
        Image.frombytes(mode, (4, 4), values.astype(">u2").tobytes()).save(tmp_path / "deep.tif")
    with Image.open(tmp_path / "deep.tif") as image:
        assert image.mode == mode
    np.testing.assert_array_equal(read_image(tmp_path / "deep.tif", GRAY)[0], ramp())
    folder = tmp_path / "data" / "a"
    folder.mkdir(parents=True)
    (tmp_path / "deep.tif").rename(folder / "deep.tif")
    assert first_shape(str(tmp_path / "data")) == GRAY


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_idx_files(tmp_path: Path, suffix: str) -> None:
    pixels = np.stack([ramp(), ramp() + 1, ramp() + 2])
    path = idx(tmp_path, pixels, [7, 0, 7], suffix=suffix)
    found = read_labeled([str(path)], COLOR)
    assert found.labels == ("7", "0", "7")
    assert found.files[2] == (str(path), 3)
    np.testing.assert_array_equal(found.pixels, np.repeat(pixels[:, None], 3, 1))
    assert first_shape(str(path)) == GRAY
    half = read_labeled([str(path)], ImageShape(size=2, channels=1))
    assert half.pixels.shape == (3, 1, 2, 2)


def test_the_first_image_decides_the_shape(tmp_path: Path) -> None:
    saved(tmp_path / "a" / "1.png", np.zeros((30, 50, 3)))
    saved(tmp_path / "b" / "2.png", ramp())
    assert first_shape(str(tmp_path)) == ImageShape(size=30, channels=3)
    saved(tmp_path / "a" / "0.png", np.zeros((300, 500)))
    assert first_shape(str(tmp_path)) == ImageShape(size=64, channels=1)
    (tmp_path / "a" / "0.png").write_bytes(b"nothing")
    assert first_shape(str(tmp_path)) == ImageShape(size=30, channels=3)
    assert first_shape(str(tmp_path / "nowhere")) is None


def test_a_damaged_image_is_an_error_or_is_left_out(tmp_path: Path) -> None:
    saved(tmp_path / "a" / "1.png", ramp())
    (tmp_path / "a" / "2.png").write_bytes((tmp_path / "a" / "1.png").read_bytes()[:40])
    (tmp_path / "a" / "3.png").write_bytes(b"nothing")
    with pytest.raises(DataError, match=r"2\.png: is not a readable image: .*; remove it, or .*--on-bad-row skip"):
        read_labeled([str(tmp_path)], GRAY)
    found = read_labeled([str(tmp_path)], GRAY, on_bad_row="skip")
    assert len(found) == 1
    assert ["2.png" in found.skipped[0], "3.png" in found.skipped[1]] == [True, True]


def test_sources_without_images_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    with pytest.raises(DataError, match=r"holds no images; put each label's into a folder with its name"):
        read_labeled([str(tmp_path)], GRAY)
    with pytest.raises(DataError, match=r"one\.png: is neither a folder"):
        read_labeled([str(saved(tmp_path / "one.png", ramp()))], GRAY)
    for name in ("fashion-mnist", "fashion-mnist/train-images-idx3-ubyte.gz"):
        with pytest.raises(DataError, match="apt-get install dataset-fashion-mnist"):
            read_labeled([str(tmp_path / name)], GRAY)
    with pytest.raises(DataError, match=r"there is no such folder$"):
        read_labeled([str(tmp_path / "elsewhere")], GRAY)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda content: content[:-1], "is damaged: it has fewer than 48 bytes"),
        (lambda content: content + b"x", "is damaged: it has more than 48 bytes"),
        (lambda content: content[:9], "is not an IDX file of images"),
        (lambda content: b"\0\0\x0d\x03" + content[4:], "is not an IDX file of images"),
        (lambda content: content[:8] + b"\xff" * 8 + content[16:], "allowed: up to 67,108,864"),
    ],
)
def test_damaged_idx_files_are_refused(tmp_path: Path, change, problem: str) -> None:
    path = idx(tmp_path, np.stack([ramp()] * 3), [1, 2, 3])
    path.write_bytes(change(path.read_bytes()))
    with pytest.raises(DataError, match=problem):
        read_labeled([str(path)], GRAY)


def test_idx_files_that_do_not_belong_together_are_refused(tmp_path: Path) -> None:
    path = idx(tmp_path, np.stack([ramp()] * 3), [1, 2])
    with pytest.raises(DataError, match="has 3 images, but train-labels-idx1-ubyte 2 labels"):
        read_labeled([str(path)], GRAY)


def test_huge_images_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = saved(tmp_path / "a" / "1.png", ramp(8, 8))
    monkeypatch.setattr(module, "MAX_PIXELS", 63)
    with pytest.raises(DataError, match="has 8 x 8 pixels; allowed: up to 63"):
        read_image(path, GRAY)
