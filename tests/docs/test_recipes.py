"""docs/recipes.md is that of the code."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parents[2]


def test_the_committed_page_is_what_the_script_makes(load_script: Callable[[str], ModuleType]) -> None:
    page = load_script("docs/recipes.py").render()
    assert (ROOT / "docs" / "recipes.md").read_text("utf-8") == page, "run python docs/recipes.py"
