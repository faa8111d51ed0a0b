"""Image classifiers of gMLP and MLP-Mixer, whose tokens are patches."""

from mixling.vision.model import (
    IMAGE_PRESETS,
    ImageModel,
    ImageModelConfig,
    ImagePreset,
    PatchEmbedding,
    build_image_model,
)
from mixling.vision.timm_weights import from_timm

__all__ = [
    "IMAGE_PRESETS",
    "ImageModel",
    "ImageModelConfig",
    "ImagePreset",
    "PatchEmbedding",
    "build_image_model",
    "from_timm",
]
