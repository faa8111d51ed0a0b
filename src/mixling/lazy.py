"""Names that a package offers, each imported from its module when it is first used."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from typing import Any


def lazy_imports(package: str) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return `__getattr__` and `__dir__` of a package that offers names of its modules without importing them.

    The names are those that its `__init__.py` imports from its own modules for type checkers, so that these, editors
    and readers see ordinary imports:

        if TYPE_CHECKING:
            from mixling.training.loop import Trainer

        __getattr__, __dir__ = lazy_imports(__name__)

    Args:
        package: its `__name__`.
    """

    @functools.cache
    def modules() -> dict[str, str]:
        import ast
        import inspect

        tree = ast.parse(inspect.getsource(importlib.import_module(package)))
        blocks = [node for node in tree.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"]
        imports = [node for block in blocks for node in block.body if isinstance(node, ast.ImportFrom)]
        return {
            alias.name: node.module
            for node in imports
            if node.module is not None and node.module.startswith(f"{package}.")
            for alias in node.names
        }

    def get(name: str) -> Any:
        if name.startswith("__") or name not in modules():
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(importlib.import_module(modules()[name]), name)

    def names() -> list[str]:
        return sorted({*vars(importlib.import_module(package)), *modules()})

    return get, names
