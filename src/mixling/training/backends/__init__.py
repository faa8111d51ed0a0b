"""What computes the steps of a training: each backend has parameters by name, a step, an evaluation and a state."""

from typing import TYPE_CHECKING

from mixling.lazy import lazy_imports

if TYPE_CHECKING:
    from mixling.training.backends.base import Backend, StepPart, StepSums
    from mixling.training.backends.choose import choose_backend
    from mixling.training.backends.device import GPU_OPERATIONS, compiles, device_of, multiplied_weights
    from mixling.training.backends.native import NativeSteps
    from mixling.training.backends.native_backend import NativeBackend, NativeNetwork
    from mixling.training.backends.optimizer import build_optimizer
    from mixling.training.backends.pytorch import TorchBackend

__getattr__, __dir__ = lazy_imports(__name__)
