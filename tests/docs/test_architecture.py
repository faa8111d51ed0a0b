"""The committed picture of the architecture is the one that imports and layers give, and nothing in it overlaps."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any
from xml.etree import ElementTree

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def script(load_script: Callable[[str], ModuleType]) -> ModuleType:
    return load_script("tools/docs/architecture.py")


@pytest.fixture(scope="module")
def made(script: ModuleType) -> dict[str, str]:
    """The files of this checkout's imports, by name."""
    files: dict[str, str] = script.files(script.read())
    return files


def tree(folder: Path, files: dict[str, str]) -> Path:
    """Write a package mixling whose packages and modules have the given source."""
    for name, source in files.items():
        path = folder / "mixling" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source, "utf-8")
    return folder / "mixling"


SOUND = {
    "__init__.py": "from mixling.runs import fit",
    "errors.py": '"""Errors."""',
    "config.py": '"""Configuration."""\nfrom mixling.errors import UserError',
    "text/__init__.py": '"""Text | words.\n\nMore."""',
    "text/encoder.py": "from mixling.config import Config\nimport numpy",
    "runs/__init__.py": '"""Runs."""\nfrom mixling import text, __version__',
    "runs/fit.py": "def fit():\n    import mixling.models.model",
    "models/__init__.py": '"""Models."""\nfrom mixling.text.encoder import TextEncoder',
    "audit/__init__.py": '"""Audit."""\nfrom mixling.models import build_model',
    "cli/__init__.py": '"""Commands."""\nfrom mixling import audit, runs, errors',
}


@pytest.mark.parametrize("name", ["architecture.svg", "architecture.md"])
def test_the_committed_file_is_what_the_script_makes(made: dict[str, str], name: str) -> None:
    assert (ROOT / "docs" / name).read_text("utf-8") == made[name], (
        f"docs/{name} is not that of the imports: run python tools/docs/architecture.py"
    )


@pytest.fixture
def found(script: ModuleType, tmp_path: Path) -> Any:
    """A small package and its layers."""
    layers = '["mixling.cli", "mixling.audit | mixling.runs", "mixling.models", "mixling.text", "mixling.config"]'
    (tmp_path / "pyproject.toml").write_text(f"[[tool.importlinter.contracts]]\nlayers = {layers}\n")
    return script.read(tree(tmp_path, SOUND), tmp_path / "pyproject.toml")


def test_imports_are_those_of_every_statement(found: Any) -> None:
    assert found.imports == {
        "config": {"errors"},
        "errors": set(),
        "text": {"config"},
        "models": {"text"},
        "runs": {"text", "models"},
        "audit": {"models"},
        "cli": {"audit", "runs", "errors"},
    }
    assert found.summaries["text"] == "Text | words."


def test_what_no_layer_names_is_in_the_lowest(found: Any) -> None:
    assert found.layers == (("cli",), ("audit", "runs"), ("models",), ("text",), ("config", "errors"))


def test_each_package_is_drawn_once_and_nothing_overlaps(script: ModuleType) -> None:
    architecture = script.read()
    svg = ElementTree.fromstring(script.picture(architecture))
    boxes = [item for item in svg.iter("{http://www.w3.org/2000/svg}rect") if item.get("class") == "box"]
    names = [text.text for text in svg.iter("{http://www.w3.org/2000/svg}text") if text.get("text-anchor")]
    assert sorted(names) == sorted(architecture.imports)
    places = [[float(box.get(key) or 0) for key in ("x", "y", "width", "height")] for box in boxes]
    for (x, y, width, height), (x2, y2, width2, height2) in itertools.combinations(places, 2):
        assert x + width < x2 or x2 + width2 < x or y + height < y2 or y2 + height2 < y
    _, _, across, down = map(float, (svg.get("viewBox") or "").split())
    assert all(x + width < across and y + height < down for x, y, width, height in places)
    assert all(8 * len(name or "") < script.BOX for name in names), "a name is wider than its box"


@pytest.mark.slow
@pytest.mark.parametrize(("folders", "most"), [(["experiments", "benchmarks"], 30), (["tests"], 385)])
def test_names_are_imported_from_packages(
    load_script: Callable[[str], ModuleType], folders: list[str], most: int
) -> None:
    # A name that others use is offered by its package (mixling/lazy.py); few tests need more than that.
    counted = load_script("benchmarks/architecture.py").private_doors(*(ROOT / folder for folder in folders))
    assert counted <= most, "import from mixling or from its packages, which offer names lazily (CONTRIBUTING.md)"
