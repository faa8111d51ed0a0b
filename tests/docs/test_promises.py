"""What docs/security.md and docs/serving.md promise is held by tests: promises.toml names those of each sentence."""

from __future__ import annotations

import ast
import functools
import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
HELD = tomllib.loads(Path(__file__).with_name("promises.toml").read_text("utf-8"))
MEASURED = {"How it is tested", "Tests and figures"}  # sections about results files and about tests themselves


def sentences(page: str) -> list[str]:
    """Return the sentences of a page, and the rows of its tables, without code, headings and heads of tables."""
    text = re.sub(r"(?ms)<!--.*?-->|^```.*?^```", "", (ROOT / "docs" / f"{page}.md").read_text("utf-8"))
    found: list[str] = []
    for section in re.split(r"(?m)^#+ ", text)[1:]:
        title, _, content = section.partition("\n")
        if title in MEASURED:
            continue
        for block in re.split(r"\n\s*\n|\n(?=- |\|)", content):
            block = " ".join(block.removeprefix("- ").split())
            if re.fullmatch(r"[|\- ]+", block):
                found.pop()  # the head of a table
            elif block.startswith("|"):
                found.append(block)
            elif block:
                found += re.split(r"(?<=[.!?:)]) (?=[A-Z`*(\[])", block)
    return found


@functools.cache
def names_in(path: str) -> set[str]:
    """Return the names of the tests of a file."""
    tree = ast.parse((ROOT / path).read_text("utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


def missing(tests: list[str]) -> list[str]:
    """Return what names no test."""
    split = [(test, *test.partition("::")[::2]) for test in tests]
    return [test for test, path, name in split if not (ROOT / path).is_file() or name not in names_in(path)]


@pytest.mark.parametrize("page", ["security", "serving"])
def test_each_sentence_is_held_or_no_promise(page: str) -> None:
    there, listed = sentences(page), HELD[page].keys()
    assert [sentence for sentence in there if sentence not in listed] == [], (
        f"docs/{page}.md has new or changed sentences: write a test of what they promise, and name it beside them in "
        "tests/docs/promises.toml; [] for one that promises nothing"
    )
    assert sorted(listed - set(there)) == [], "these sentences of tests/docs/promises.toml are no longer on the page"


def test_tests_that_are_named_exist() -> None:
    assert missing([test for page in HELD.values() for tests in page.values() for test in tests]) == []
    assert missing(["tests/docs/test_promises.py::test_none", "tests/none.py::test"]) != []


def test_claims_of_the_threat_model_name_their_tests() -> None:
    text = (ROOT / "SECURITY.md").read_text("utf-8")
    rows = [row for row in re.findall(r"(?m)^\| .*\|$", text) if "::" in row]
    assert len(rows) > 8
    assert missing(re.findall(r"`(tests/[\w/.]+::\w+)`", text)) == []
    model = text.partition("## Threat model")[2].partition("\n## ")[0]
    heads = 1
    assert [row for row in re.findall(r"(?m)^\| (?!---).*\|$", model)[heads:] if "::" not in row] == []
