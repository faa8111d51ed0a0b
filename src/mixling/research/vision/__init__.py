"""Image classifiers of gMLP, MLP-Mixer, ResMLP and ViT, whose tokens are patches, and their training."""

from typing import TYPE_CHECKING

from mixling.lazy import lazy_imports

if TYPE_CHECKING:
    from mixling.research.vision.augmentation import ImageAugmentationConfig
    from mixling.research.vision.classifier import ImageClassifier as ImageClassifier
    from mixling.research.vision.config import IMAGE_RUNS, ImageDataConfig, ImageRunConfig
    from mixling.research.vision.images import ImageShape, read_labeled
    from mixling.research.vision.model import (
        IMAGE_PRESETS,
        ImageModel,
        ImageModelConfig,
        ImagePreset,
        PatchEmbedding,
        build_image_model,
    )
    from mixling.research.vision.run import fit_images
    from mixling.research.vision.timm_weights import from_timm

__getattr__, __dir__ = lazy_imports(__name__)
