"""Prediction with numpy, tokenizers and onnxruntime; never torch."""

from mixling.lazy import TYPE_CHECKING, lazy_imports

if TYPE_CHECKING:
    from mixling.runtime.extra_arrays import BRANCH
    from mixling.runtime.native import CACHE_BYTES, VARIABLE, NativeEngine, load_native, open_native
    from mixling.runtime.onnx_file import read_metadata, seal
    from mixling.runtime.operators import OPERATORS
    from mixling.runtime.quick import ONNX_FILE
    from mixling.runtime.session import Precision, open_model

__getattr__, __dir__ = lazy_imports(__name__)
