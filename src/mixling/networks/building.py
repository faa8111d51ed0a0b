"""How the class of a mixer finds its configuration, without importing the module that has all of them."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

# While a configuration makes its mixer, whose values it has checked: a call of the class then makes the module itself.
BUILDING: ContextVar[bool] = ContextVar("BUILDING", default=False)
FINDERS: list[Callable[[type], Any]] = []  # of the configuration of a class; None: not known


def config_of(mixer: type) -> Any:
    """Return the configuration that a call of a mixer's class is to be made by; None: the class makes it itself."""
    if BUILDING.get():
        return None
    return next((config for find in FINDERS if (config := find(mixer)) is not None), None)
