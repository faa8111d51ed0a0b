"""Names that a package offers, each imported from its module when it is first used."""

from __future__ import annotations

import importlib

TYPE_CHECKING = False  # as in `typing`, whose import takes longer than to read a model and to predict
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_EXTRAS = {"torch": "torch", "jaxtyping": "torch", "sklearn": "estimators"}  # libraries, and the extras that have them


def lazy_imports(package: str) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return `__getattr__` and `__dir__` of a package that offers names of its modules without importing them.

    The names are those that its `__init__.py` imports from its own modules for type checkers, so that these, editors
    and readers see ordinary imports:

        if TYPE_CHECKING:
            from mixling.training.loop import Trainer

        __getattr__, __dir__ = lazy_imports(__name__)

    They are read from the package's bytecode, which is there without sources too, as in frozen programs: among its
    names, a module is followed by those imported from it, which are also a tuple among its constants.

    Args:
        package: its `__name__`.
    """

    found: dict[str, str] | None = None

    def modules() -> dict[str, str]:
        nonlocal found
        if found is None:
            spec: Any = importlib.import_module(package).__spec__
            code = spec.loader.get_code(package)
            module = ""
            imported = {name for value in code.co_consts if isinstance(value, tuple) for name in value}
            modules_of_names = {}
            for name in code.co_names:
                if name.startswith(f"{package}."):
                    module = name
                elif module and name in imported:
                    modules_of_names[name] = module
            found = modules_of_names
        return found

    def get(name: str) -> Any:
        if name not in modules():
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        try:
            return getattr(importlib.import_module(modules()[name]), name)
        except ModuleNotFoundError as error:
            if error.name not in _EXTRAS:
                raise
            from mixling.installation import install_command

            raise ModuleNotFoundError(
                f"{package}.{name} needs {error.name}, which is not installed: {install_command(_EXTRAS[error.name])}",
                name=error.name,
            ) from None

    def names() -> list[str]:
        offered = vars(importlib.import_module(package))
        return sorted(offered.get("__all__") or {*offered, *modules()})

    return get, names
