"""Sample data, written for this project: small files that every command can be tried on."""

from typing import TYPE_CHECKING

from mixling.lazy import lazy_imports

if TYPE_CHECKING:
    from mixling.samples.sets import SAMPLES, SampleSet, read_sample, write_sample

__getattr__, __dir__ = lazy_imports(__name__)
