"""The research side: text to text, images, costs, plots of what a model does, and `transformers`; needs PyTorch."""

from typing import TYPE_CHECKING

from mixling.lazy import lazy_imports

if TYPE_CHECKING:
    from mixling.research.saved import load_model

__getattr__, __dir__ = lazy_imports(__name__)
