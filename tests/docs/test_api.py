"""docs/api.md is that of the code, and every public name is in it with a docstring."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

import mixling

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def script(load_script: Callable[[str], ModuleType]) -> ModuleType:
    return load_script("tools/docs/api.py")


def test_the_committed_page_is_what_the_script_makes(script: ModuleType) -> None:
    assert (ROOT / "docs" / "api.md").read_text("utf-8") == script.page(), "run python tools/docs/api.py"


def test_a_name_that_no_group_has_is_an_error(script: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mixling, "__all__", [*mixling.__all__, "Nobody"])
    with pytest.raises(ValueError, match="differ in Nobody"):
        script.page()


@pytest.mark.parametrize("name", [name for name in mixling.__all__ if not name.startswith("__")])
def test_public_names_are_documented(name: str) -> None:
    item = getattr(mixling, name)
    assert name in dir(mixling)
    assert not callable(item) or inspect.getdoc(item)
