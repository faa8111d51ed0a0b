"""Image classifiers of gMLP, MLP-Mixer, ResMLP and ViT, whose tokens are patches, and their training."""

from mixling.vision.augmentation import ImageAugmentationConfig
from mixling.vision.classifier import ImageClassifier
from mixling.vision.config import ImageDataConfig, ImageRunConfig
from mixling.vision.model import (
    IMAGE_PRESETS,
    ImageModel,
    ImageModelConfig,
    ImagePreset,
    PatchEmbedding,
    build_image_model,
)
from mixling.vision.run import fit_images
from mixling.vision.timm_weights import from_timm

__all__ = [
    "IMAGE_PRESETS",
    "ImageAugmentationConfig",
    "ImageClassifier",
    "ImageDataConfig",
    "ImageModel",
    "ImageModelConfig",
    "ImagePreset",
    "ImageRunConfig",
    "PatchEmbedding",
    "build_image_model",
    "fit_images",
    "from_timm",
]
