"""Whether new texts are like those that a model was trained and measured on."""

from mixling.lazy import TYPE_CHECKING, lazy_imports

if TYPE_CHECKING:
    from mixling.drift.profile import (
        CONFIDENCE_BINS,
        LENGTH_BINS,
        UNKNOWN_BINS,
        KnownWords,
        Profile,
        bins,
        profile_of,
        profile_words,
    )
    from mixling.drift.report import Drift, Movement, compare_observed, find_drift, observe

__getattr__, __dir__ = lazy_imports(__name__)
