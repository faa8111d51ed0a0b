"""What the documents for contributors point to exists: links, anchors, and files named in code."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
FOLDERS = "benchmarks|docs|experiments|src|tests"


def anchors(document: Path) -> set[str]:
    """Return the anchors of the headings, as hosts make them."""
    headings = re.findall(r"^#+ (.+)$", document.read_text("utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(document: Path) -> None:
    text = document.read_text("utf-8")
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, anchor = target.partition("#")
        path = (document.parent / name).resolve() if name else document
        assert path.exists(), f"{target}: there is no such file"
        assert not anchor or anchor in anchors(path), f"{target}: there is no such heading"


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_files_that_are_named_exist(document: Path) -> None:
    """`tests/x.py` and `src/mixling/y/` are checked; names with a placeholder, such as `tasks/<name>.py`, are not."""
    for name in re.findall(rf"`((?:{FOLDERS})/[\w./-]+)`", document.read_text("utf-8")):
        assert (ROOT / name).exists(), f"{name}: it was moved or removed"
