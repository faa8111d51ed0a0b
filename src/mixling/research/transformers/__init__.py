"""Models of mixling as models of the `transformers` library: its Auto classes, Trainer, pipelines and hub.

Importing this module registers them with the Auto classes; no code of a repository is run. Needs the extra `hf`.
"""

from __future__ import annotations

from mixling.errors import MissingPackage
from mixling.installation import install_command

try:
    import transformers
except ImportError:
    raise MissingPackage(
        f"mixling.research.transformers needs transformers; run {install_command('torch', 'hf')}"
    ) from None

from mixling.research.transformers.features import MixlingFeatureExtractor
from mixling.research.transformers.modeling import (
    MixlingConfig,
    MixlingForSequenceClassification,
    MixlingForTokenClassification,
    MixlingModel,
)
from mixling.research.transformers.runs import from_run, save_onnx

__all__ = [
    "MixlingConfig",
    "MixlingFeatureExtractor",
    "MixlingForSequenceClassification",
    "MixlingForTokenClassification",
    "MixlingModel",
    "from_run",
    "save_onnx",
]

transformers.AutoConfig.register("mixling", MixlingConfig)
transformers.AutoFeatureExtractor.register(MixlingConfig, MixlingFeatureExtractor)
transformers.AutoModel.register(MixlingConfig, MixlingModel)
transformers.AutoModelForSequenceClassification.register(MixlingConfig, MixlingForSequenceClassification)
transformers.AutoModelForTokenClassification.register(MixlingConfig, MixlingForTokenClassification)
