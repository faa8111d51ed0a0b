"""Prediction by the C core, or by ONNX Runtime for models that it does not know; never by torch."""

from mixling.lazy import TYPE_CHECKING, lazy_imports

if TYPE_CHECKING:
    from mixling.runtime.index import VectorIndex as VectorIndex
    from mixling.runtime.index import write_index as write_index
    from mixling.runtime.native import CACHE_BYTES, VARIABLE, NativeEngine, load_native, open_native
    from mixling.runtime.quick import ONNX_FILE

__getattr__, __dir__ = lazy_imports(__name__)
