"""docs/checklist.md: what it names exists, and it is what its data file says."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest


@pytest.fixture(scope="module")
def script(load_script: Callable[[str], ModuleType]) -> ModuleType:
    return load_script("tools/docs/checklist.py")


def test_all_that_is_named_exists(script: ModuleType) -> None:
    assert list(script.problems()) == []


def test_the_committed_page_is_what_the_script_makes(script: ModuleType) -> None:
    assert (script.ROOT / "docs" / "checklist.md").read_text("utf-8") == script.page(), "run its script"


@pytest.mark.parametrize(
    ("item", "problem"),
    [
        ({"mark": "tested", "code": "models.block.Block"}, "is marked 'tested' without test"),
        ({"mark": "fine"}, "unknown mark 'fine'"),
        ({"mark": "works", "code": "models.block.Nothing"}, "no code models.block.Nothing"),
        ({"mark": "works", "code": "experiments/nothing.py"}, "no code experiments/nothing.py"),
        ({"mark": "missing", "test": "tests/docs/test_checklist.py::test_x"}, "no test tests/docs/test_checklist.py::"),
        ({"mark": "missing", "results": "experiments/results/x.json"}, "no results experiments/results/x.json"),
        ({"mark": "missing", "command": "mixling train --no-such"}, "no option --no-such"),
        ({"mark": "missing", "command": "mixling nothing"}, "no command mixling nothing"),
        ({"mark": "missing", "command": "python experiments/x.py"}, "no script experiments/x.py"),
        ({"mark": "missing", "tests": "x"}, "unknown keys ['tests']"),
    ],
)
def test_what_does_not_exist_is_found(
    script: ModuleType, monkeypatch: pytest.MonkeyPatch, item: dict[str, Any], problem: str
) -> None:
    monkeypatch.setattr(script, "papers", lambda: [{"name": "x", "items": [{"item": "An item", **item}]}])
    (found,) = script.problems()
    assert found.startswith(f"An item: {problem}")
