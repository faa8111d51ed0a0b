"""Image classifiers of gMLP and MLP-Mixer: patches in place of words, then the blocks of the text models."""

from mixling.vision.model import (
    IMAGE_PRESETS,
    ImageModel,
    ImageModelConfig,
    ImagePreset,
    PatchEmbedding,
    build_image_model,
)

__all__ = [
    "IMAGE_PRESETS",
    "ImageModel",
    "ImageModelConfig",
    "ImagePreset",
    "PatchEmbedding",
    "build_image_model",
]
