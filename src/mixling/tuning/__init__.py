"""Search over options of training: many runs with different values; validation chooses the best."""

from typing import TYPE_CHECKING

from mixling.lazy import lazy_imports

if TYPE_CHECKING:
    from mixling.tuning.expected import expected_best
    from mixling.tuning.space import Dimension, read_space
    from mixling.tuning.tune import TRIALS_FOLDER, read_plan

__getattr__, __dir__ = lazy_imports(__name__)
