"""Token mixers, one a file: `type = "token_mlp"` in a configuration means the file `token_mlp.py`.

The mixer and the configuration of a file can be imported from here, `from mixling.mixers import TokenMLP,
TokenMLPConfig`; the file is loaded when one of them is asked for.
"""

from __future__ import annotations

import importlib
import pkgutil
from importlib.util import find_spec
from typing import Any

_NOT_MIXERS = ("base", "dropout", "hypernetwork", "masks", "positions")


def mixer_types() -> list[str]:
    """Return the names of all mixers: the files of this package."""
    return sorted(info.name for info in pkgutil.iter_modules(__path__) if info.name not in _NOT_MIXERS)


def __getattr__(name: str) -> Any:
    for file in mixer_types():
        if _is_of(name, file):
            found = vars(importlib.import_module(f"{__name__}.{file}")).get(name)
            if found is not None:
                return found
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    names = set(globals())
    if find_spec("torch") is not None:  # without it none of them can be imported
        for file in mixer_types():
            module = importlib.import_module(f"{__name__}.{file}")
            names.update(name for name in vars(module) if _is_of(name, file))
    return sorted(names)


def _is_of(name: str, file: str) -> bool:
    """Whether a file holds the class of this name: the letters of `token_mlp` are those of TokenMLP."""
    return not name.islower() and name.removesuffix("Config").lower() == file.replace("_", "")
