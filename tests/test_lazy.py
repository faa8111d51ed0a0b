"""Packages offer names of their modules, and import the modules only when a name is used."""

from __future__ import annotations

import importlib
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest

import mixling

SOURCE = Path(mixling.__file__).parent
PACKAGES = sorted(path.parent.name for path in SOURCE.glob("*/__init__.py") if "lazy_imports(" in path.read_text())


def test_most_packages_offer_names() -> None:
    assert {"text", "data", "models", "tasks", "training", "runs", "runtime", "seq2seq", "vision"} <= set(PACKAGES)


@pytest.mark.parametrize("name", PACKAGES)
def test_every_name_is_that_of_its_module(name: str) -> None:
    pytest.importorskip("torch")
    package = importlib.import_module(f"mixling.{name}")
    modules = {info.name for info in pkgutil.iter_modules(package.__path__)}
    offered = [key for key in dir(package) if key not in vars(package) and not key.startswith("_")]
    assert offered
    for key in offered:
        value = getattr(package, key)
        assert key not in modules, "a module of the same name would hide it once it is imported"
        loaded = [module for path, module in sys.modules.items() if path.startswith(f"mixling.{name}.")]
        assert any(vars(module).get(key) is value for module in loaded)


def test_a_missing_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match=r"module 'mixling\.text' has no attribute 'Nothing'"):
        importlib.import_module("mixling.text").Nothing  # noqa: B018
    with pytest.raises(ImportError, match="Nothing"):
        exec("from mixling.text import Nothing")


def test_a_package_imports_none_of_its_modules() -> None:
    code = f"""import sys
for name in {PACKAGES}:
    before = set(sys.modules)
    __import__(f"mixling.{{name}}")
    own = [module for module in set(sys.modules) - before if module.startswith(f"mixling.{{name}}.")]
    assert not own or name == "tasks", own
assert "torch" not in sys.modules and "numpy" not in sys.modules, "an import of packages loads no library"
"""
    subprocess.run([sys.executable, "-c", code], check=True)
