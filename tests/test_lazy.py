"""Packages offer names of their modules, and import the modules only when a name is used."""

from __future__ import annotations

import importlib
import pkgutil
import py_compile
import subprocess
import sys
from pathlib import Path

import pytest

import mixling
from mixling.lazy import lazy_imports

SOURCE = Path(mixling.__file__).parent
PACKAGES = sorted(
    ".".join(path.parent.relative_to(SOURCE).parts)
    for path in SOURCE.glob("*/**/__init__.py")
    if "lazy_imports(" in path.read_text()
)


def test_most_packages_offer_names() -> None:
    assert {"text", "data", "models", "tasks", "training", "runs", "runtime", "research.seq2seq"} <= set(PACKAGES)


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


def test_the_public_names_are_those_imported_for_type_checkers() -> None:
    pytest.importorskip("torch")
    assert dir(mixling) == sorted(mixling.__all__)
    assert [name for name in mixling.__all__ if not hasattr(mixling, name)] == []


def test_names_are_offered_without_sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    init = """from typing import TYPE_CHECKING

from mixling.lazy import lazy_imports

if TYPE_CHECKING:
    from sourceless.inner.part import (
        first,
        second,
    )
    from sourceless.whole import *
    from sourceless.needy import third

__getattr__, __dir__ = lazy_imports(__name__)
"""
    files = {
        "__init__": init, "inner/__init__": "", "inner/part": "first, second, hidden = 1, 2, 3", "whole": "",
        "needy": "import torch_that_is_absent",
    }  # fmt: skip
    for name, content in files.items():
        path = tmp_path / "sourceless" / f"{name}.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text(content)
        py_compile.compile(str(path), cfile=str(path.with_suffix(".pyc")), doraise=True)
        path.unlink()
    monkeypatch.syspath_prepend(tmp_path)
    package = importlib.import_module("sourceless")
    assert (package.second, package.first) == (2, 1)
    assert not hasattr(package, "hidden")
    assert {"first", "second", "third"} <= set(dir(package))
    with pytest.raises(ModuleNotFoundError, match=r"^No module named 'torch_that_is_absent'$"):
        package.third  # noqa: B018


def test_a_missing_library_is_named_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(name: str) -> None:
        raise ModuleNotFoundError("No module named 'torch'", name="torch")

    get, _ = lazy_imports("mixling.models")
    assert callable(get("count"))
    monkeypatch.setattr("mixling.lazy.importlib.import_module", absent)
    said = r'mixling\.models\.count needs torch, .*\[torch\]"'
    with pytest.raises(ModuleNotFoundError, match=said) as caught:
        get("count")
    assert caught.value.name == "torch"


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
