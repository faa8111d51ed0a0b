"""How the C core is built, and what is said where it is not, or was built from other sources."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import mixling
from mixling.native import INTERFACE, _core

ROOT = Path(__file__).parents[1]
SOURCE = Path(mixling.__file__).parent
FROZEN = (10, "87250991d0738cfb")  # the number of the interface, and a digest of its declarations


def run(*arguments: str | Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run Python with variables of the environment."""
    environment = {**os.environ, **variables}
    return subprocess.run([sys.executable, *map(str, arguments)], capture_output=True, text=True, env=environment)


def test_the_modules_have_the_number_of_the_python_files() -> None:
    assert _core.INTERFACE == INTERFACE > 0


def test_a_changed_interface_has_a_new_number() -> None:
    """Of the functions that Python calls; what C reads of a file is to be remembered."""
    files = sorted((SOURCE / "native").glob("*.pyi"))
    digest = hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()
    assert (INTERFACE, digest[:16]) == FROZEN, (
        "add one to INTERFACE of mixling/native/__init__.py, and freeze both here"
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda package: [file.unlink() for file in package.glob("_core.*so")], "cannot be loaded"),
        (
            lambda package: (package / "__init__.py").write_text(
                re.sub(r"(?m)^INTERFACE = \d+", "INTERFACE = 999", (package / "__init__.py").read_text())
            ),
            f"its interface is {INTERFACE}, theirs 999",
        ),
    ],
)
def test_a_core_that_is_not_there_or_another_is_one_error(change: object, reason: str, tmp_path: Path) -> None:
    assert callable(change)
    shutil.copytree(SOURCE, tmp_path / "mixling", ignore=shutil.ignore_patterns("__pycache__", "*.c"))
    change(tmp_path / "mixling" / "native")
    (tmp_path / "rows.csv").write_text("text,label\na film,good\nwhat a,bad\n")
    run_cli = "import sys; sys.argv[0] = 'mixling'; from mixling.cli.main import run; run()"
    for arguments in (("predict", "demo", "a text"), ("train", tmp_path / "rows.csv", "-o", tmp_path / "out")):
        done = run("-c", run_cli, *arguments, PYTHONPATH=str(tmp_path))
        assert done.returncode == 2, done.stderr
        assert done.stderr.startswith("error: the C core of mixling ")
        assert reason in done.stderr
        assert "`make native`" in done.stderr
        assert done.stderr.count("\n") == 1


@pytest.mark.skipif(not (ROOT / "tools" / "build_native.py").exists(), reason="only in a checkout")
@pytest.mark.slow
def test_without_a_compiler_the_build_asks_for_one_or_fails() -> None:
    """Nothing is compiled here."""
    tool = ROOT / "tools" / "build_native.py"
    assert run(tool).stdout in ("\n", "ziglang==0.17.1\n")
    assert run(tool, CC="false").stdout == "ziglang==0.17.1\n"
    code = """
import sys
sys.path.insert(0, "tools")
sys.modules["ziglang"] = None
import build_native
build_native.find_spec = lambda name: None
sys.argv = ["setup.py", "-q", "build_ext", "--force", "--build-lib", "nowhere"]
exec(open("setup.py").read(), {"__file__": "setup.py"})
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, env={**os.environ, "CC": "false"}
    )
    assert done.returncode == 1
    assert "finds no C compiler that works: install gcc or clang, or ziglang" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (ROOT / "nowhere").exists()
