"""The Python of the README type-checks, as in the editor of somebody who pastes it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
def test_the_readme_has_no_type_errors(tmp_path: Path) -> None:
    pytest.importorskip("mypy")
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text("utf-8"), re.DOTALL)
    assert len(blocks) == 2
    (tmp_path / "readme.py").write_text("\n".join(blocks) + "\nreveal_type(Predictor('').predict(['a', 'b']))\n")
    command = [sys.executable, "-m", "mypy", "--config-file", str(ROOT / "pyproject.toml"), str(tmp_path / "readme.py")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    assert re.search(
        r"Revealed type is \"(builtins\.)?list\[mixling\.answers\.predictions\.Prediction\]\"", done.stdout
    )
