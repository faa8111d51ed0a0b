"""Bulk prediction: files of any size, by several processes or a Ray cluster, into a folder that can be resumed."""

from typing import TYPE_CHECKING

from mixling.lazy import lazy_imports

if TYPE_CHECKING:
    from mixling.bulk.run import predict_files

__getattr__, __dir__ = lazy_imports(__name__)
