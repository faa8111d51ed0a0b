"""The second engine, ONNX Runtime, and the checks of a graph before it runs."""

from mixling.lazy import TYPE_CHECKING, lazy_imports

if TYPE_CHECKING:
    from mixling.runtime.onnx.extra_arrays import BRANCH
    from mixling.runtime.onnx.file import read_metadata, seal
    from mixling.runtime.onnx.operators import OPERATORS
    from mixling.runtime.onnx.session import Precision, open_model

__getattr__, __dir__ = lazy_imports(__name__)
