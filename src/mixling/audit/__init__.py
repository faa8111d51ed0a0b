"""What is wrong with labeled data: likely label errors, duplicates that disagree, leakage, rare and confused labels."""

from mixling.lazy import TYPE_CHECKING, lazy_imports

if TYPE_CHECKING:
    from mixling.audit.suggestions import suggest

__getattr__, __dir__ = lazy_imports(__name__)
