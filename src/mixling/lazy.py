"""Names that a package offers, each imported from its module when it is first used."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from typing import Any

_EXTRAS = ("torch", "sklearn", "jaxtyping")  # libraries that only training needs


def lazy_imports(package: str) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return `__getattr__` and `__dir__` of a package that offers names of its modules without importing them.

    The names are those that its `__init__.py` imports from its own modules for type checkers, so that these, editors
    and readers see ordinary imports:

        if TYPE_CHECKING:
            from mixling.training.loop import Trainer

        __getattr__, __dir__ = lazy_imports(__name__)

    They are read from the package's bytecode, which is there without sources too, as in frozen programs.

    Args:
        package: its `__name__`.
    """

    @functools.cache
    def modules() -> dict[str, str]:
        import dis

        spec: Any = importlib.import_module(package).__spec__
        found, module = {}, ""
        for instruction in dis.get_instructions(spec.loader.get_code(package)):
            if instruction.opname == "IMPORT_NAME":
                module = instruction.argval
            elif instruction.opname == "IMPORT_FROM" and module.startswith(f"{package}."):
                found[instruction.argval] = module
        return found

    def get(name: str) -> Any:
        if name.startswith("__") or name not in modules():
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        try:
            return getattr(importlib.import_module(modules()[name]), name)
        except ModuleNotFoundError as error:
            if error.name not in _EXTRAS:
                raise
            raise ModuleNotFoundError(
                f'{package}.{name} needs {error.name}, which is not installed: pip install "mixling[train]"',
                name=error.name,
            ) from None

    def names() -> list[str]:
        offered = vars(importlib.import_module(package))
        return sorted(offered.get("__all__") or {*offered, *modules()})

    return get, names
