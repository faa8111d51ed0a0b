"""HTTP server for saved models, the page to try them in a browser, and a client; never torch."""

from typing import TYPE_CHECKING

from mixling.lazy import lazy_imports

if TYPE_CHECKING:
    from mixling.serving.app import Service
    from mixling.serving.callers import hosts_of
    from mixling.serving.client import RemotePredictor, ServerError
    from mixling.serving.protocol import LimitedProtocol
    from mixling.serving.settings import ServerSettings, named_models

__getattr__, __dir__ = lazy_imports(__name__)
