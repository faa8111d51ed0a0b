"""What the checklist of the four papers says of their results."""

from __future__ import annotations

import tomllib
from pathlib import Path

from tables.markdown import as_markdown


def contradictions(folder: Path) -> str:
    """The papers' findings that our results contradict, with what was found."""
    rows = [["paper", "finding", "here"]]
    for paper in tomllib.loads((folder / "docs" / "checklist.toml").read_text("utf-8"))["paper"]:
        name = paper["name"].partition(" (")[0]
        rows += [[name, item["item"], item["note"]] for item in paper["items"] if item.get("outcome") == "contradicted"]
    return as_markdown(rows)
