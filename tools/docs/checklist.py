"""Write docs/checklist.md from docs/checklist.toml: what four papers state, where it is here, tested and measured.

python tools/docs/checklist.py
"""

from __future__ import annotations

import importlib
import re
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
MARKS = ("tested", "works", "partly", "missing", "impossible")
OUTCOMES = ("reproduced", "sign holds", "contradicted", "undecided", "none")
KEYS = {"item", "mark", "outcome", "code", "test", "results", "command", "note"}
_INTRODUCTION = """# Checklist of the four papers

<!-- Written by tools/docs/checklist.py from docs/checklist.toml; a test compares it and checks every name in it. -->

*tested*: works, and a test compares it with something independent. *works*: without a test or an experiment of its own.
*partly*, *missing*: the note says what is not there. *impossible*: data, weights or hardware are not available.
The outcome beside it says how our result compares with the paper's: *reproduced* (its figure or order, within noise),
*sign holds* (the direction, in small or in part), *contradicted*, *undecided* (too small, or one seed), *none* (there
is no result to compare, or none was run). How we read the papers is in [papers.md](papers.md), figures are in
[experiments](../experiments/README.md).
"""


def papers() -> list[dict[str, Any]]:
    """Return the papers with their items."""
    content: list[dict[str, Any]] = tomllib.loads((ROOT / "docs" / "checklist.toml").read_text("utf-8"))["paper"]
    return content


def page() -> str:
    """Return the page."""
    marks = Counter(item["mark"] for paper in papers() for item in paper["items"])
    total = f"{sum(marks.values())} items: {', '.join(f'{marks[mark]} {mark}' for mark in MARKS)}."
    outcomes = Counter(item.get("outcome", "none") for paper in papers() for item in paper["items"])
    compared = ", ".join(f"{outcomes[outcome]} {outcome}" for outcome in OUTCOMES if outcome != "none")
    parts = [_INTRODUCTION, f"{total} Results: {compared}.", ""]
    number = 0
    for paper in papers():
        parts += [f"## {paper['name']}", "", "| | item | mark | outcome | code | test | results, command | note |"]
        parts.append("|---|---|---|---|---|---|---|---|")
        for item in paper["items"]:
            number += 1
            found = [_file(item["results"])] if "results" in item else []
            found += [f"`{item['command']}`"] if "command" in item else []
            test, _, function = item.get("test", "").partition("::")
            shown = _file(test) + (f" `{function}`" if function else "") if test else ""
            code = item.get("code", "")
            code = _file(code) if "/" in code else f"`{code}`" if code else ""
            marks = [item["mark"], item.get("outcome", "none")]
            cells = [str(number), item["item"], *marks, code, shown, ", ".join(found), item.get("note", "")]
            parts.append(f"| {' | '.join(cells)} |")
        parts.append("")
    return "\n".join(parts)


def problems() -> Iterator[str]:
    """Yield what an item names that does not exist, and marks without what they need."""
    for paper in papers():
        for item in paper["items"]:
            yield from (f"{item['item']}: {problem}" for problem in _problems(item))


def _problems(item: Mapping[str, str]) -> Iterator[str]:
    if unknown := item.keys() - KEYS:
        yield f"unknown keys {sorted(unknown)}"
    mark = item["mark"]
    if mark not in MARKS:
        yield f"unknown mark {mark!r}"
    outcome = item.get("outcome", "none")
    if outcome not in OUTCOMES:
        yield f"unknown outcome {outcome!r}"
    if outcome in ("sign holds", "contradicted", "undecided") and "note" not in item:
        yield f"is {outcome!r} without a note"
    for key in {"tested": ("code", "test"), "works": ("code",), "partly": ("note",), "impossible": ("note",)}.get(
        mark, ()
    ):
        if key not in item:
            yield f"is marked {mark!r} without {key}"
    if "code" in item and not _exists(item["code"]):
        yield f"no code {item['code']}"
    if "results" in item and not (ROOT / item["results"]).is_file():
        yield f"no results {item['results']}"
    if "test" in item:
        path, _, function = item["test"].partition("::")
        if not (ROOT / path).is_file():
            yield f"no test {path}"
        elif function and f"def {function}(" not in (ROOT / path).read_text("utf-8"):
            yield f"no test {item['test']}"
    if "command" in item:
        yield from _command_problems(item["command"])


def _exists(name: str) -> bool:
    if "/" in name:
        return (ROOT / name).is_file()
    module, parts = "mixling", name.split(".")
    value: Any = importlib.import_module(module)
    for part in parts:
        module = f"{module}.{part}"
        if not hasattr(value, part):
            try:
                importlib.import_module(module)
            except ImportError:
                return False
        value = getattr(value, part)
    return True


def _command_problems(command: str) -> Iterator[str]:
    program, name, *options = command.split()
    if program == "python":
        if not (ROOT / name).is_file():
            yield f"no script {name}"
        return
    source = ROOT / "src" / "mixling"
    sources = [*(source / "cli").rglob("*.py"), *(source / "research" / "commands").glob("*.py")]
    homes = (source / side / "commands" / f"{name}.py" for side in ("cli", "research"))
    if not any(home.is_file() for home in homes):
        yield f"no command mixling {name}"
    known = set(re.findall(r"--[a-z-]+", "".join(path.read_text("utf-8") for path in sources)))
    yield from (f"no option {option}" for option in options if option.startswith("--") and option not in known)


def _file(path: str) -> str:
    return f"[{path}](../{path})"


if __name__ == "__main__":
    for problem in problems():
        print(problem)
    (ROOT / "docs" / "checklist.md").write_text(page(), "utf-8")
