"""The command line: one file per command, imported when it runs."""

from typing import TYPE_CHECKING

from mixling.lazy import lazy_imports

if TYPE_CHECKING:
    from mixling.cli.main import COMMANDS, EXTRAS, build_app, run

__getattr__, __dir__ = lazy_imports(__name__)
