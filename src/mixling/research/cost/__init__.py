"""The cost of a model: parameters, floating-point operations, time and memory by length of the input."""

from typing import TYPE_CHECKING

from mixling.lazy import lazy_imports

if TYPE_CHECKING:
    from mixling.research.cost.timing import time_model

__getattr__, __dir__ = lazy_imports(__name__)
