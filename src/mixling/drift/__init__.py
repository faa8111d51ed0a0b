"""Whether new texts are like those that a model was trained and measured on."""

from mixling.lazy import TYPE_CHECKING, lazy_imports

if TYPE_CHECKING:
    from mixling.drift.profile import Profile, profile_of
    from mixling.drift.report import Drift, Movement, find_drift

__getattr__, __dir__ = lazy_imports(__name__)
