"""Every function that docs/papers.md names exists."""

from __future__ import annotations

import importlib
import pkgutil
import re
from pathlib import Path
from typing import Any

import mixling

TEXT = (Path(__file__).parents[2] / "docs" / "papers.md").read_text("utf-8")
PACKAGES = {module.name for module in pkgutil.iter_modules(mixling.__path__)}


def find(name: str) -> Any:
    """Return the module, function, class or attribute of a name without its first part, "mixling"."""
    module, attributes = name.split("."), list[str]()
    while True:
        try:
            found: Any = importlib.import_module(".".join(["mixling", *module]))
            break
        except ModuleNotFoundError:
            attributes.insert(0, module.pop())
    for attribute in attributes:
        found = getattr(found, attribute)
    return found


def test_functions_of_the_papers_exist() -> None:
    quoted = {name.split("(")[0] for name in re.findall(r"`([\w.]+(?:\([^`]*\))?)`", TEXT)}
    names = {name for name in quoted if "." in name and name.split(".")[0] in PACKAGES} - {"cost.png"}
    assert len(names) > 50
    missing = []
    for name in sorted(names):
        try:
            find(name)
        except AttributeError:
            missing.append(name)
    assert missing == []
