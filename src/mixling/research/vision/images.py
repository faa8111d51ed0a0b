"""Reading labeled images: folders with a folder per label, and IDX files as MNIST and Fashion-MNIST have."""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import re
import struct
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Literal, cast

import numpy as np
import numpy.typing as npt

from mixling.errors import ConfigError, DataError, MissingPackage
from mixling.installation import install_command

SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff")
MAX_PIXELS = 1 << 26  # of one image file, and of one IDX image
MAX_BYTES = 8 << 30  # of all pixels in memory
_IDX_IMAGES = re.compile(r"(.*)images(-|\.)idx3-ubyte(\.gz)?")
_LARGEST = 64  # height and width that images are reduced to, unless the user names a size

Pixels = npt.NDArray[np.uint8]


@dataclass(frozen=True, kw_only=True)
class ImageShape:
    """The form in which a model reads images: height and width in pixels, and 1 (gray) or 3 (RGB) channels."""

    size: int
    channels: int

    @property
    def mode(self) -> str:
        """Pillow's name of the colors."""
        if self.channels not in (1, 3):
            raise ConfigError(f"model.channels: got {self.channels}; images have 1 (gray) or 3 (RGB)")
        return "L" if self.channels == 1 else "RGB"


@dataclass(frozen=True, kw_only=True)
class LabeledImages:
    """Images of one size with their labels.

    Attributes:
        pixels: (images, channels, height, width), from 0 to 255.
        labels: the label of each image.
        files: the file of each image, and its number in it from 1; 0 for files of one image.
        skipped: files that could not be read.
    """

    pixels: Pixels
    labels: tuple[str, ...]
    files: tuple[tuple[str, int], ...]
    skipped: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.labels)

    def subset(self, chosen: npt.NDArray[np.int64]) -> LabeledImages:
        """Return some of the images."""
        return LabeledImages(
            pixels=self.pixels[chosen],
            labels=tuple(self.labels[i] for i in chosen),
            files=tuple(self.files[i] for i in chosen),
        )

    def hashes(self) -> npt.NDArray[np.uint64]:
        """Return a hash of each image's pixels."""
        digests = (hashlib.blake2b(image.tobytes(), digest_size=8).digest() for image in self.pixels)
        return np.frombuffer(b"".join(digests), np.uint64)


def read_labeled(
    sources: Sequence[str], shape: ImageShape, *, on_bad_row: Literal["error", "skip"] = "error"
) -> LabeledImages:
    """Read images from folders and IDX files.

    Args:
        sources: folders with a folder per label, whose images may be in folders of their own; or IDX files of images
            (`train-images-idx3-ubyte`, also `.gz`) beside the IDX file of their labels.
        shape: the form of the images; others are resized and converted.
        on_bad_row: stop at an image that cannot be read, or leave it out.

    Raises:
        DataError: a source does not exist, has no images, or one of them cannot be read.
    """
    parts = [_read_idx(Path(source), shape) if is_idx(source) else _read_folder(Path(source), shape, on_bad_row)
             for source in sources]  # fmt: skip
    return LabeledImages(
        pixels=np.concatenate([part.pixels for part in parts]),
        labels=tuple(label for part in parts for label in part.labels),
        files=tuple(file for part in parts for file in part.files),
        skipped=tuple(message for part in parts for message in part.skipped),
    )


def first_shape(source: str) -> ImageShape | None:
    """Return the form in which the images of a source are best read, by the first that can be; None if none can.

    The height and width are the shorter side, or 64 if that is longer.
    """
    try:
        if is_idx(source):
            with _opened(Path(source)) as file:
                _, height, width = _idx_header(file, Path(source), rank=3)
            return ImageShape(size=min(height, width, _LARGEST), channels=1)
        for path, _ in _labeled_files(Path(source)):
            with contextlib.suppress(DataError), _open_image(path) as image:
                gray = image.mode in ("1", "L", "LA", "F") or image.mode.startswith("I")
                return ImageShape(size=min(*image.size, _LARGEST), channels=1 if gray else 3)
    except DataError:  # reported when all images are read
        pass
    return None


def is_idx(source: str) -> bool:
    """Return whether a name belongs to an IDX file of images."""
    return _IDX_IMAGES.fullmatch(Path(source).name) is not None


def read_image(path: str | Path, shape: ImageShape) -> Pixels:
    """Return the image of a file, (channels, size, size): the largest square in its middle, resized.

    Raises:
        DataError: the file cannot be read.
    """
    with _open_image(Path(path)) as image:
        return image_pixels(image, shape, where=str(path))


def image_pixels(image: Any, shape: ImageShape, *, where: str) -> Pixels:
    """Return an image of Pillow as `read_image` does.

    Raises:
        DataError: it is damaged; the message begins with `where`.
    """
    from PIL import Image

    try:
        if image.mode.startswith("I"):  # 16 bits, also in the 32 of "I", which Pillow would cut off at 255
            image = Image.fromarray((np.asarray(image).clip(0, 0xFFFF) >> 8).astype(np.uint8))
        if image.has_transparency_data:  # on white, not on whatever is stored below it
            image = image.convert("RGBA")
            image = Image.alpha_composite(Image.new("RGBA", image.size, "white"), image)
        image = image.convert(shape.mode)
        side = min(image.size)
        if image.size != (shape.size, shape.size):
            left, top = ((length - side) / 2 for length in image.size)
            box = (left, top, left + side, top + side)
            image = image.resize((shape.size, shape.size), Image.Resampling.BICUBIC, box=box)
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        raise DataError(f"{where}: is not a readable image: {error}") from None
    pixels = np.asarray(image, np.uint8)
    return pixels[None] if shape.channels == 1 else np.ascontiguousarray(pixels.transpose(2, 0, 1))


def _open_image(path: Path) -> Any:
    try:
        from PIL import Image
    except ImportError:
        raise MissingPackage(f"images are read by Pillow, which is missing: {install_command('torch')}") from None
    try:
        image = Image.open(path)
    except FileNotFoundError:
        raise DataError(f"{path}: there is no such file") from None
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        reason = str(error).replace(f" '{path}'", "")
        raise DataError(f"{path}: is not a readable image: {reason}") from None
    if image.width * image.height > MAX_PIXELS:
        image.close()
        raise DataError(f"{path}: has {image.width:,} x {image.height:,} pixels; allowed: up to {MAX_PIXELS:,}")
    return image


def _labeled_files(folder: Path) -> Iterator[tuple[Path, str]]:
    """Yield the image files of a folder with their labels, in the order of their names."""
    if not folder.exists():
        raise DataError(f"{folder}: there is no such folder{_package(folder)}")
    if not folder.is_dir():
        raise DataError(
            f"{folder}: is neither a folder with a folder of images for each label, nor an IDX file of images such as "
            "train-images-idx3-ubyte.gz"
        )
    for label in sorted(item for item in folder.iterdir() if item.is_dir() and not item.name.startswith(".")):
        for path in sorted(label.rglob("*")):
            if path.suffix.lower() in SUFFIXES and path.is_file():
                yield path, label.name


def _read_folder(folder: Path, shape: ImageShape, on_bad_row: str) -> LabeledImages:
    images = []
    labels = []
    files = []
    skipped = []
    most = MAX_BYTES // (shape.channels * shape.size**2)
    for path, label in _labeled_files(folder):
        try:
            images.append(read_image(path, shape))
        except DataError as error:
            if on_bad_row == "error":
                raise DataError(f"{error}; remove it, or leave out such files: --on-bad-row skip") from None
            skipped.append(str(error))
            continue
        if len(images) > most:
            raise DataError(
                f"{folder}: has more than {most:,} images of {shape.size} x {shape.size} pixels, which need "
                f"{MAX_BYTES >> 30} GB of memory; choose a smaller model.image_size"
            )
        labels.append(label)
        files.append((str(path), 0))
    if not images:
        raise DataError(
            f"{folder}: holds no images; put each label's into a folder with its name, such as "
            f"{folder / 'cat' / 'one.png'} ({', '.join(SUFFIXES)})"
        )
    return LabeledImages(pixels=np.stack(images), labels=tuple(labels), files=tuple(files), skipped=tuple(skipped))


def _read_idx(path: Path, shape: ImageShape) -> LabeledImages:
    found = cast(re.Match[str], _IDX_IMAGES.fullmatch(path.name))
    beside = path.with_name(f"{found[1]}labels{found[2]}idx1-ubyte{found[3] or ''}")
    pixels = _idx_values(path, rank=3)
    numbers = _idx_values(beside, rank=1)
    if len(pixels) != len(numbers):
        raise DataError(f"{path}: has {len(pixels):,} images, but {beside.name} {len(numbers):,} labels")
    if not len(pixels):
        raise DataError(f"{path}: holds no images")
    if pixels.shape[1:] == (shape.size, shape.size):
        images = np.repeat(pixels[:, None], shape.channels, 1)
    else:
        from PIL import Image

        images = np.stack([image_pixels(Image.fromarray(image), shape, where=str(path)) for image in pixels])
    labels = tuple(map(str, numbers))
    return LabeledImages(pixels=images, labels=labels, files=tuple((str(path), i + 1) for i in range(len(labels))))


def _idx_values(path: Path, *, rank: int) -> Pixels:
    with _opened(path) as file:
        shape = _idx_header(file, path, rank=rank)
        size = int(np.prod(shape, dtype=np.int64))
        if size > MAX_BYTES:
            raise DataError(f"{path}: has {size:,} bytes; allowed: up to {MAX_BYTES:,}")
        try:
            content = file.read(size + 1)
        except (OSError, EOFError, zlib.error) as error:
            raise DataError(f"{path}: is damaged: {error}") from None
    if len(content) != size:
        raise DataError(f"{path}: is damaged: it has {'more' if len(content) > size else 'fewer'} than {size:,} bytes")
    return np.frombuffer(content, np.uint8).reshape(shape)


def _idx_header(file: BinaryIO, path: Path, *, rank: int) -> tuple[int, ...]:
    """Return the sizes of an IDX file: two zeros, the type (8: bytes), the rank, and the sizes in 4 bytes each."""
    try:
        header = file.read(4 + 4 * rank)
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{path}: is damaged: {error}") from None
    if header[:4] != bytes([0, 0, 8, rank]) or len(header) < 4 + 4 * rank:
        raise DataError(f"{path}: is not an IDX file of {'images' if rank == 3 else 'labels'} in bytes")
    sizes = struct.unpack(f">{rank}I", header[4:])
    if rank == 3 and not 0 < sizes[1] * sizes[2] <= MAX_PIXELS:
        raise DataError(f"{path}: has images of {sizes[1]:,} x {sizes[2]:,} pixels; allowed: up to {MAX_PIXELS:,}")
    return sizes


def _opened(path: Path) -> BinaryIO:
    try:
        return cast(BinaryIO, gzip.open(path) if path.suffix == ".gz" else path.open("rb"))
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror}{_package(path)}") from None


def _package(path: Path) -> str:
    """Return which package has the files of a missing path, if it is one that Debian installs."""
    hint = "; Debian has Fashion-MNIST in a package: apt-get install dataset-fashion-mnist"
    return hint if "fashion-mnist" in path.parts else ""
