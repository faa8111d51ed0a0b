"""mixling: small, fast text models without (or with very little) attention.

Names are loaded when they are first used: importing the package imports neither torch nor NumPy.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from mixling.version import __version__

if TYPE_CHECKING:
    from mixling.data.dataset import Dataset
    from mixling.data.examples import DataConfig, Example, read_examples
    from mixling.errors import ConfigError, DataError, ModelFileError, UserError
    from mixling.estimators import TextClassifier, TextRegressor, TokenClassifier
    from mixling.layers.mixer import Mixer, MixerConfig
    from mixling.mixers import register_mixer
    from mixling.models.model import ModelConfig, build_model
    from mixling.models.presets import PRESETS, model_config
    from mixling.runs.artifact import load
    from mixling.runs.config import RunConfig
    from mixling.runs.data import read_data
    from mixling.runs.pretrain import PretrainConfig, pretrain
    from mixling.runs.training import fit
    from mixling.runtime.predictor import Predictor
    from mixling.seq2seq.generator import TextGenerator
    from mixling.tasks import register_task
    from mixling.tasks.base import Task
    from mixling.text.config import TextConfig
    from mixling.text.encoder import TextEncoder
    from mixling.text.predictions import Answer, Prediction, Span
    from mixling.text.vocabulary import Vocabulary
    from mixling.training.callbacks import Callback, CallbackList, Step
    from mixling.training.config import TrainConfig

# The public API: everything else is private, or documented in CONTRIBUTING.md as an extension point.
_HOMES = {
    "PRESETS": "models.presets",
    "Answer": "text.predictions",
    "Callback": "training.callbacks",
    "CallbackList": "training.callbacks",
    "ConfigError": "errors",
    "DataConfig": "data.examples",
    "DataError": "errors",
    "Dataset": "data.dataset",
    "Example": "data.examples",
    "Mixer": "layers.mixer",
    "MixerConfig": "layers.mixer",
    "ModelConfig": "models.model",
    "ModelFileError": "errors",
    "Prediction": "text.predictions",
    "Predictor": "runtime.predictor",
    "PretrainConfig": "runs.pretrain",
    "RunConfig": "runs.config",
    "Span": "text.predictions",
    "Step": "training.callbacks",
    "Task": "tasks.base",
    "TextClassifier": "estimators",
    "TextConfig": "text.config",
    "TextEncoder": "text.encoder",
    "TextGenerator": "seq2seq.generator",
    "TextRegressor": "estimators",
    "TokenClassifier": "estimators",
    "TrainConfig": "training.config",
    "UserError": "errors",
    "Vocabulary": "text.vocabulary",
    "build_model": "models.model",
    "fit": "runs.training",
    "load": "runs.artifact",
    "model_config": "models.presets",
    "pretrain": "runs.pretrain",
    "read_data": "runs.data",
    "read_examples": "data.examples",
    "register_mixer": "mixers",
    "register_task": "tasks",
}

__all__ = [
    "PRESETS",
    "Answer",
    "Callback",
    "CallbackList",
    "ConfigError",
    "DataConfig",
    "DataError",
    "Dataset",
    "Example",
    "Mixer",
    "MixerConfig",
    "ModelConfig",
    "ModelFileError",
    "Prediction",
    "Predictor",
    "PretrainConfig",
    "RunConfig",
    "Span",
    "Step",
    "Task",
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
    "register_mixer",
    "register_task",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'mixling' has no attribute {name!r}")
    home = f"mixling.{_HOMES[name]}"
    try:
        return getattr(importlib.import_module(home), name)
    except ModuleNotFoundError as error:
        if error.name in ("torch", "sklearn", "jaxtyping"):
            raise ModuleNotFoundError(
                f'mixling.{name} needs {error.name}, which is not installed: pip install "mixling[train]"',
                name=error.name,
            ) from None
        raise


def __dir__() -> list[str]:
    return __all__
