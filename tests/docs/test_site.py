"""The README and the site: generated pages are those of the code, everything is linked, and nothing is too large."""

from __future__ import annotations

import ast
import importlib
import json
import re
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))
README = (ROOT / "README.md").read_text("utf-8")


@pytest.fixture(scope="module")
def site(load_script: Callable[[str], ModuleType]) -> ModuleType:
    return load_script("tools/docs/site.py")


@pytest.fixture(scope="module")
def pages(site: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the copied pages."""
    folder = tmp_path_factory.mktemp("site")
    site.copy_pages(folder)
    return folder


@pytest.mark.parametrize("name", ["commands", "configuration"])
def test_the_reference_is_that_of_the_code(load_script: Callable[[str], ModuleType], name: str) -> None:
    made = getattr(load_script("tools/docs/reference.py"), name)()
    committed = (ROOT / "docs" / "reference" / f"{name}.md").read_text("utf-8")
    assert committed == made, "run python tools/docs/reference.py"


def test_the_gallery_is_that_of_the_results(load_script: Callable[[str], ModuleType]) -> None:
    script = load_script("tools/docs/gallery.py")
    assert script.PAGE.read_text("utf-8") == script.page(), "run python tools/docs/gallery.py"
    for name, content in script.pictures().items():
        assert (ROOT / "docs" / "pictures" / name).read_text("utf-8") == content, "run python tools/docs/gallery.py"


@pytest.mark.parametrize("name", ["overview", "bars"])
def test_the_picture_is_that_of_the_results(load_script: Callable[[str], ModuleType], name: str) -> None:
    for file, content in load_script(f"benchmarks/{name}.py").pictures().items():
        assert (ROOT / "docs" / "pictures" / file).read_text("utf-8") == content, f"run python benchmarks/{name}.py"


def test_the_readme_is_short_and_begins_with_numbers_and_a_picture() -> None:
    lines = README.splitlines()
    assert len(lines) <= 130
    first = "\n".join(lines[:25])
    assert re.search(r"\d\.\d+ ms", first)
    assert "<img " in first


def test_the_claims_of_the_first_lines_are_those_of_the_results(load_script: Callable[[str], ModuleType]) -> None:
    script = load_script("benchmarks/bars.py")
    found = script.systems()
    text = " ".join("\n".join(README.splitlines()[:25]).split())
    assert script.claim(found) in text
    assert f"one file of {found['mixling'].megabytes:.1f} MB" in text
    assert f"in {found['mixling'].milliseconds:.3f} ms" in text


def test_the_readme_has_the_two_commands_that_the_checks_run() -> None:
    (block,) = [block for block in re.findall(r"^```sh\n(.*?)^```", README, re.DOTALL | re.M) if "make " in block]
    assert re.findall(r"^make (\w+)", block, re.M) == ["demo", "check"]
    run = (ROOT / ".ci" / "run").read_text("utf-8")
    assert "README.md" in run
    assert not re.search(r"\bpip\b|pytest|make (demo|check)", run)


def test_every_page_is_in_the_navigation(pages: Path) -> None:
    # A new page belongs into the navigation of mkdocs.yml.
    listed = re.findall(r": ([\w/.-]+\.md)$", (ROOT / "mkdocs.yml").read_text("utf-8"), re.MULTILINE)
    assert sorted(listed) == sorted(path.relative_to(pages).as_posix() for path in pages.rglob("*.md"))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_has_the_outputs_of_its_cells(path: Path) -> None:
    # The workflow of GitHub runs them (`make notebooks`), which takes a minute.
    cells = [cell for cell in json.loads(path.read_text("utf-8"))["cells"] if cell["cell_type"] == "code"]
    for cell in cells:
        source = "".join(cell["source"])
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("mixling"):
                assert all(hasattr(importlib.import_module(node.module or ""), name.name) for name in node.names)
        assert bool(cell["outputs"]) == bool(re.search(r"\b(print|show)\(", source)), source
        assert all(output["output_type"] != "error" for output in cell["outputs"])
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1))


def test_a_notebook_is_a_page_with_its_outputs(pages: Path) -> None:
    page = (pages / "notebooks" / "classification.md").read_text("utf-8")
    assert re.search(r"```text\n(.*\n)*accuracy 0\.\d+\n```", page)
    assert (pages / "notebooks" / re.findall(r"!\[.*\]\((.+\.png)\)", page)[0]).read_bytes()[1:4] == b"PNG"


def test_links_of_the_site_lead_to_its_files(pages: Path, site: ModuleType) -> None:
    links = 0
    for page in pages.rglob("*.md"):
        for match in site.LINK.finditer(page.read_text("utf-8")):
            if not re.match(r"[a-z]+:", match[3]):
                assert (page.parent / match[3]).resolve().exists(), f"{page}: {match[3]}"
                links += 1
    assert links > 100


def test_a_link_to_a_source_file_becomes_text(site: ModuleType) -> None:
    page = ROOT / "docs" / "tutorials" / "x.md"
    given = "[a](../../src/mixling/config.py) [b](../../experiments/README.md#c) [d](../format.md) ![e](../e.png)"
    assert site.with_links(given, page) == "a [b](../experiments.md#c) [d](../format.md) ![e](../e.png)"


def test_no_page_is_over_300_kilobytes(pages: Path) -> None:
    large = {path.name: path.stat().st_size for path in pages.rglob("*") if path.is_file()}
    assert {name: size for name, size in large.items() if size > 300_000} == {}
