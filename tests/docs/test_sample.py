"""docs/sample.md has the statistics of the files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def script(load_script: Callable[[str], ModuleType]) -> ModuleType:
    return load_script("tools/docs/sample.py")


def test_the_committed_page_is_what_the_script_makes(script: ModuleType) -> None:
    assert script.PAGE.read_text("utf-8") == script.render(), "run python tools/docs/sample.py"


def test_near_duplicates_are_counted(script: ModuleType) -> None:
    assert script.near_duplicates(["a b c d e f", "g h i j", "f e d c b a!", "a b", "b a"]) == 2


def test_at_most_one_message_in_a_hundred_has_a_near_duplicate(script: ModuleType) -> None:
    texts = [row["message"] for file in ("messages.csv", "messages_test.csv") for row in script.rows(file)]
    assert script.near_duplicates(texts) <= len(texts) / 100
    held = {row["message"] for row in script.rows("messages_test.csv")}
    near = script.near_duplicates(texts)
    assert near == script.near_duplicates(sorted(held)) + script.near_duplicates([t for t in texts if t not in held])
