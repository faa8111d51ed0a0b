"""The committed picture of the architecture is the one that the imports give, and its rules find what breaks them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType
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


def test_imports_are_those_of_every_statement(script: ModuleType, tmp_path: Path) -> None:
    found = script.read(tree(tmp_path, SOUND))
    assert found.base == ("config", "errors")
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
    assert found.forbidden == []


def test_rows_go_down_and_implied_arrows_are_left_out(script: ModuleType, tmp_path: Path) -> None:
    found = script.read(tree(tmp_path, SOUND))
    assert script.layers(found) == [["cli"], ["audit", "runs"], ["models"], ["text"]]
    assert ("runs", "text") in found.arrows
    assert ("runs", "text") not in script.needed(found)
    assert set(script.needed(found)) == {
        ("cli", "audit"),
        ("cli", "runs"),
        ("audit", "models"),
        ("runs", "models"),
        ("models", "text"),
    }


@pytest.mark.parametrize(
    ("file", "source", "forbidden"),
    [
        ("text/encoder.py", "import mixling.models", [("models", "text"), ("text", "models")]),
        ("runs/report.py", "from mixling.audit import report", [("runs", "audit")]),
    ],
    ids=["circle", "core to wing"],
)
def test_what_breaks_the_rules_is_red(
    script: ModuleType, tmp_path: Path, file: str, source: str, forbidden: list[tuple[str, str]]
) -> None:
    found = script.read(tree(tmp_path, SOUND | {file: source}))
    assert found.forbidden == forbidden
    drawn = ElementTree.fromstring(script.picture(found)).iter("{http://www.w3.org/2000/svg}path")
    assert sum(path.get("stroke") == script.BAD for path in drawn) == len(forbidden)
    assert f"{len(forbidden)} against the direction" in script.page(found)


@pytest.mark.slow
@pytest.mark.parametrize(("folders", "most"), [(["experiments", "benchmarks"], 30), (["tests"], 385)])
def test_names_are_imported_from_packages(
    load_script: Callable[[str], ModuleType], folders: list[str], most: int
) -> None:
    # A name that others use is offered by its package (mixling/lazy.py); few tests need more than that.
    counted = load_script("benchmarks/architecture.py").private_doors(*(ROOT / folder for folder in folders))
    assert counted <= most, "import from mixling or from its packages, which offer names lazily (CONTRIBUTING.md)"
