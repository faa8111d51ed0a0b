"""Teachers: from their answers to training data."""

from mixling.lazy import TYPE_CHECKING, lazy_imports

if TYPE_CHECKING:
    from mixling.runs.distillation.teacher import DistillConfig, check_distill, open_teacher

__getattr__, __dir__ = lazy_imports(__name__)
