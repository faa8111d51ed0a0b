"""Prediction with numpy, tokenizers and onnxruntime; never torch."""

from typing import TYPE_CHECKING

from mixling.lazy import lazy_imports

if TYPE_CHECKING:
    from mixling.runtime.extra_arrays import BRANCH
    from mixling.runtime.native import CACHE_BYTES, VARIABLE, NativeEngine, load_native, open_native
    from mixling.runtime.onnx_file import ONNX_FILE, read_metadata, seal
    from mixling.runtime.operators import OPERATORS
    from mixling.runtime.session import Precision, open_model

__getattr__, __dir__ = lazy_imports(__name__)
