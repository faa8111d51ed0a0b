"""mixling: small, fast text models without (or with very little) attention.

Names are loaded when they are first used: importing the package imports neither torch nor NumPy.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from mixling.version import __version__

if TYPE_CHECKING:
    from mixling.errors import UserError
    from mixling.estimators import TextClassifier, TextRegressor, TokenClassifier
    from mixling.models.model import ModelConfig, build_model
    from mixling.models.presets import PRESETS, model_config
    from mixling.runs.artifact import load
    from mixling.runtime.predictor import Predictor
    from mixling.seq2seq.generator import TextGenerator
    from mixling.text.config import TextConfig
    from mixling.text.encoder import TextEncoder
    from mixling.text.predictions import Answer, Prediction, Span
    from mixling.training.callbacks import Callback, CallbackList, Step

_HOMES = {
    "Answer": "text.predictions",
    "UserError": "errors",
    "load": "runs.artifact",
    "TextClassifier": "estimators",
    "TextRegressor": "estimators",
    "TokenClassifier": "estimators",
    "ModelConfig": "models.model",
    "build_model": "models.model",
    "PRESETS": "models.presets",
    "model_config": "models.presets",
    "Predictor": "runtime.predictor",
    "TextGenerator": "seq2seq.generator",
    "TextConfig": "text.config",
    "TextEncoder": "text.encoder",
    "Prediction": "text.predictions",
    "Span": "text.predictions",
    "Callback": "training.callbacks",
    "CallbackList": "training.callbacks",
    "Step": "training.callbacks",
}

__all__ = [
    "PRESETS",
    "Answer",
    "Callback",
    "CallbackList",
    "ModelConfig",
    "Prediction",
    "Predictor",
    "Span",
    "Step",
    "TextClassifier",
    "TextConfig",
    "TextEncoder",
    "TextGenerator",
    "TextRegressor",
    "TokenClassifier",
    "UserError",
    "__version__",
    "build_model",
    "load",
    "model_config",
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
