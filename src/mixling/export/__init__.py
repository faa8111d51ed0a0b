"""A trained model as files that run without torch."""

from typing import TYPE_CHECKING

from mixling.lazy import lazy_imports

if TYPE_CHECKING:
    from mixling.export.onnx import amend, export_onnx
    from mixling.export.quantize import MAX_ACCURACY_DROP, MIN_AGREEMENT

__getattr__, __dir__ = lazy_imports(__name__)
