"""The Python of the documents type-checks strictly, as in the editor of somebody who pastes it."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
# Values that a page speaks of without making them, and types that its snippets have.
BEFORE = {
    "run-folder": "from mixling import Predictor\n\ntexts: list[str] = []\n",
}
REVEALED = """
from mixling import Prediction, Predictor

predictor = Predictor("model")
one: Prediction = predictor("a text")
pair: Prediction = predictor.predict(("a text", "another"), top_k=3)
several: list[Prediction] = predictor(["a text", "another"])
streamed: list[Prediction] = predictor(text for text in ["a text"])
of_rows: list[Prediction] = predictor([{"review": "a text"}], text="review")
"""


def pages() -> dict[str, str]:
    """Return the Python of each page by the page's name, without blocks that need a package that is not here."""
    found = {}
    for path in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))):
        blocks = re.findall(r"^( *)```python\n(.*?)^ *```", path.read_text("utf-8"), re.DOTALL | re.MULTILINE)
        kept = [textwrap.dedent(block) for _, block in blocks if all(map(is_here, imported(block)))]
        if kept:
            found[path.stem] = without_repeated_imports(BEFORE.get(path.stem, "") + "\n".join(kept))
    return found


def without_repeated_imports(text: str) -> str:
    """Leave out imports of whole modules that an earlier block of the page has."""
    lines = text.splitlines()
    return "\n".join(
        line for number, line in enumerate(lines) if not line.startswith("import ") or line not in lines[:number]
    )


def imported(block: str) -> set[str]:
    return set(re.findall(r"^ *(?:import|from) (\w+)", block, re.MULTILINE))


def is_here(name: str) -> bool:
    return importlib.util.find_spec(name) is not None


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder: Path = tmp_path_factory.mktemp("pages")
    for name, text in {**pages(), "revealed": REVEALED}.items():
        (folder / f"page_{name.replace('-', '_').lower()}.py").write_text(text, "utf-8")
    return folder


@pytest.mark.slow
def test_the_pages_have_no_errors_of_mypy(folder: Path) -> None:
    pytest.importorskip("mypy")
    files = sorted(map(str, folder.glob("page_*.py")))
    assert len(files) > 10
    command = [sys.executable, "-m", "mypy", "--config-file", str(ROOT / "pyproject.toml"), *files]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


@pytest.mark.slow
def test_the_pages_have_no_errors_of_pyright(folder: Path) -> None:
    pytest.importorskip("pyright")
    # To read transformers' classes takes as long as all other pages twice; scikit-learn has no types.
    few_types = ["page_transformers.py", "page_move.py"]
    settings = {
        "typeCheckingMode": "strict", "include": ["."], "exclude": few_types, "reportMissingTypeStubs": False,
    }  # fmt: skip
    (folder / "pyrightconfig.json").write_text(json.dumps(settings))
    command = [sys.executable, "-m", "pyright", "--pythonpath", sys.executable, "--outputjson", "-p", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    found = json.loads(done.stdout)["generalDiagnostics"]
    errors = [f"{Path(item['file']).name}:{item['range']['start']['line'] + 1}: {item['message']}" for item in found]
    assert not errors, "\n".join(errors)
