"""Prediction with numpy, tokenizers and onnxruntime; never torch."""

from mixling.lazy import TYPE_CHECKING, lazy_imports

if TYPE_CHECKING:
    from mixling.runtime.native import CACHE_BYTES, VARIABLE, NativeEngine, load_native, open_native
    from mixling.runtime.quick import ONNX_FILE

__getattr__, __dir__ = lazy_imports(__name__)
