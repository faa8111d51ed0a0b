"""The configuration of runs that classify images."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field

from mixling.config import Config, merge
from mixling.errors import near_miss
from mixling.networks.presets import resolve_preset
from mixling.research.vision.augmentation import ImageAugmentationConfig
from mixling.research.vision.images import first_shape
from mixling.research.vision.model import IMAGE_PRESETS, ImageModelConfig
from mixling.runs.resolve.spec import Spec
from mixling.training.config import TrainConfig
from mixling.training.optim import OptimConfig

IMAGE_MODEL = "gmlp-images"
_PATCHES = 8  # along each side of the image, at most, where the user names no size of patches

IMAGE_DEFAULTS = TrainConfig(
    optim=OptimConfig(lr=2e-3, weight_decay=0.05, warmup=0.1),
    batch_size=128,
    token_dropout=0.0,
    checkpoint_seconds=60.0,
)


class ImageDataConfig(Config):
    """The images to learn from."""

    train: tuple[str, ...] = Field(default=(), description="folders with a folder per label, or IDX files of images")
    validation: tuple[str, ...] = Field(default=(), description="empty: a fraction of the training images is split off")
    validation_fraction: float = Field(
        default=0.1, gt=0, lt=1, description="fraction of the training images that is set aside"
    )
    on_bad_row: Literal["error", "skip"] = Field(
        default="error", description="stop at an unreadable image, or leave it out"
    )


def _without_text_options(train: TrainConfig) -> TrainConfig:
    if train.augmentation is not None:
        raise ValueError("augmentation changes words; images have the table `augment`")
    if train.token_dropout:
        raise ValueError(f"token_dropout = {train.token_dropout} applies to texts only; set it to 0.0")
    return train


class ImageRunConfig(Config):
    """The complete configuration of a run, recorded in its run.json."""

    task: Literal["image_classification"] = Field(
        default="image_classification", description="always image_classification"
    )
    data: ImageDataConfig = ImageDataConfig()
    model: ImageModelConfig = IMAGE_PRESETS[IMAGE_MODEL].config
    augment: ImageAugmentationConfig = Field(
        default=ImageAugmentationConfig(), description="changes of training images"
    )
    train: Annotated[TrainConfig, AfterValidator(_without_text_options)] = IMAGE_DEFAULTS


class _ImageSpec(Spec[ImageRunConfig]):
    schema = ImageRunConfig
    preset = IMAGE_MODEL
    whole = frozenset({"preset", "layers"})

    def options(self, options: Mapping[str, Any], file: Mapping[str, Any], toml: str) -> Mapping[str, Any]:
        """Return the options with the colors of the first image and, for presets that are fitted, its size.

        Values that the file names stay.
        """
        given = options.get("model", file.get("model", {}))
        table = {"preset": given} if isinstance(given, str) else given
        data = file.get("data", {})
        sources = options.get("data", {}).get("train") or (data.get("train") if isinstance(data, Mapping) else None)
        if not isinstance(table, Mapping) or "layers" in table or not sources or not isinstance(sources, list | tuple):
            return options
        preset = IMAGE_PRESETS.get(str(table.get("preset", self.preset)))
        shape = None if preset is None else first_shape(str(sources[0]))
        if preset is None or shape is None:
            return options
        fitted = {"channels": shape.channels}
        if preset.fitted:
            named = table.get("patch_size")
            patch = named if isinstance(named, int) and named > 0 else max(4, shape.size // _PATCHES)
            fitted |= {"image_size": max(1, shape.size // patch) * patch, "patch_size": patch}
        return {**options, "model": {"preset": self.preset, **fitted, **table}}

    def model(self, given: str | Mapping[str, Any], changes: Mapping[str, Any]) -> ImageModelConfig:
        table = {"preset": given} if isinstance(given, str) else dict(given)
        name = str(table.pop("preset", ""))
        presets = IMAGE_PRESETS

        def unknown(name: str) -> str:
            return f"unknown model of images {name!r}; {near_miss(name, presets)}"

        return resolve_preset(ImageModelConfig, presets, name, merge(table, changes), unknown=unknown)

    def defaults(
        self, model: str | Mapping[str, Any], values: Mapping[str, Any], folder: str | None
    ) -> Mapping[str, Any]:
        return {"train": IMAGE_DEFAULTS.to_dict()}


IMAGE_RUNS = _ImageSpec()
