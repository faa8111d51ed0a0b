"""mixling: small, fast text models without (or with very little) attention.

Names are loaded when they are first used: importing the package imports neither torch nor NumPy.
"""

from __future__ import annotations

from mixling.lazy import TYPE_CHECKING, lazy_imports
from mixling.version import __version__

if TYPE_CHECKING:
    from mixling.answers.predictions import Prediction
    from mixling.answers.spans import Answer, Span
    from mixling.artifacts.artifact import load
    from mixling.data.config import DataConfig
    from mixling.data.dataset import Dataset
    from mixling.data.examples import Example, read_examples
    from mixling.errors import ConfigError, DataError, ModelFileError, UserError
    from mixling.estimators import TextClassifier, TextRegressor, TokenClassifier
    from mixling.models.model import build_model
    from mixling.networks.config import ModelConfig
    from mixling.networks.presets import PRESETS, model_config
    from mixling.research.pretraining.run import PretrainConfig, pretrain
    from mixling.research.seq2seq.generator import TextGenerator
    from mixling.runs.data import read_data
    from mixling.runs.resolve.config import RunConfig
    from mixling.runs.training import fit
    from mixling.runtime.predictor import Predictor
    from mixling.text.config import TextConfig
    from mixling.text.encoder import TextEncoder
    from mixling.text.vocabulary import Vocabulary
    from mixling.training.config import TrainConfig
    from mixling.workers import use_workers

# The public API, with the extension points of `mixling.mixers`, `mixling.tasks` and `mixling.training` that docs/api.md
# has: everything else is private.
__all__ = [
    "PRESETS",
    "Answer",
    "ConfigError",
    "DataConfig",
    "DataError",
    "Dataset",
    "Example",
    "ModelConfig",
    "ModelFileError",
    "Prediction",
    "Predictor",
    "PretrainConfig",
    "RunConfig",
    "Span",
    "TextClassifier",
    "TextConfig",
    "TextEncoder",
    "TextGenerator",
    "TextRegressor",
    "TokenClassifier",
    "TrainConfig",
    "UserError",
    "Vocabulary",
    "__version__",
    "build_model",
    "fit",
    "load",
    "model_config",
    "pretrain",
    "read_data",
    "read_examples",
    "use_workers",
]

__getattr__, __dir__ = lazy_imports(__name__)
