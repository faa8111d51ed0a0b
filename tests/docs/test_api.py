"""Every public name has a page under docs/api/, with an example that tests/cli/test_pages.py runs, and types."""

from __future__ import annotations

import importlib
import inspect
import re
from pathlib import Path
from typing import Any

import pytest

import mixling

DOCS = Path(__file__).resolve().parents[2] / "docs"
EXTENSIONS = {
    "mixling.training": ("Callback", "CallbackList", "Step"),
    "mixling.mixers": ("Mixer", "MixerConfig", "register_mixer"),
    "mixling.tasks": ("Task", "register_task"),
}
NAMES = {name: "mixling" for name in mixling.__all__ if not name.startswith("__")}
NAMES |= {name: module for module, names in EXTENSIONS.items() for name in names}


def test_each_page_is_that_of_a_public_name() -> None:
    assert {path.stem for path in (DOCS / "api").glob("*.md")} == NAMES.keys()
    linked = re.findall(r"\]\(api/(\w+)\.md\)", (DOCS / "api.md").read_text("utf-8"))
    assert set(linked) == NAMES.keys()


@pytest.mark.parametrize("name", NAMES)
def test_a_page_has_an_example_and_its_reference(name: str) -> None:
    page = (DOCS / "api" / f"{name}.md").read_text("utf-8")
    assert page.startswith(f"# {name}\n")
    assert re.findall(r"^::: (\S+)$", page, re.M) == [f"{NAMES[name]}.{name}"]
    examples = "".join(re.findall(r"^```python\n(.*?)^```", page, re.M | re.S))
    assert re.search(rf"^from {NAMES[name]} import .*\b{name}\b", examples, re.M)
    assert not re.search("<!-- not run", page)


@pytest.mark.parametrize("name", NAMES)
def test_public_names_have_docstrings_and_types(name: str) -> None:
    item = getattr(importlib.import_module(NAMES[name]), name)
    if not callable(item):
        return
    assert inspect.getdoc(item)
    for function in functions(item):
        parameters = [p for p in inspect.signature(function).parameters.values() if p.name not in ("self", "cls")]
        bare = [p.name for p in parameters if p.annotation is inspect.Parameter.empty]
        assert not bare, f"{function.__qualname__}: {bare}"
        assert inspect.signature(function).return_annotation is not inspect.Signature.empty, function.__qualname__
        assert function.__name__.startswith("__") or inspect.getdoc(function) or inherited(item, function.__name__)


def functions(item: Any) -> list[Any]:
    """Return a function, or the public ones of a class with its constructor."""
    if inspect.isfunction(item):
        return [item]
    own = [getattr(value, "__func__", value) for key, value in vars(item).items() if key[0] != "_" or key == "__init__"]
    return [value for value in own if inspect.isfunction(value)]


def inherited(item: Any, name: str) -> bool:
    return any(inspect.getdoc(getattr(base, name, None)) for base in item.__mro__[1:])
