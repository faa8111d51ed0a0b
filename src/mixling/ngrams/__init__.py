"""The linear branch over n-grams: features, fit, search."""

from mixling.lazy import TYPE_CHECKING, lazy_imports

if TYPE_CHECKING:
    from mixling.ngrams.choose import budget, fit_ngrams
    from mixling.ngrams.data import LinearData
    from mixling.ngrams.fit import fit_branch

__getattr__, __dir__ = lazy_imports(__name__)
