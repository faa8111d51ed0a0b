"""The C sources compile without a warning, call each other without a circle, and have the version of the package."""

from __future__ import annotations

import re
import subprocess
import sysconfig
from graphlib import TopologicalSorter
from pathlib import Path
from shutil import which

import pytest

import mixling

NATIVE = Path(mixling.__file__).parent / "native"
SOURCES = [  # test_engine.py compiles the others, with optimization
    file for file in sorted(NATIVE.rglob("*.c")) if file.parent != NATIVE or file.name in ("python.c", "example.c")
]
CORE = [file for file in sorted(NATIVE.glob("*.c")) if file.name not in ("python.c", "example.c")]


def code(file: Path) -> str:
    """Return a C file without comments and strings."""
    return re.sub(r'/\*.*?\*/|"(?:\\.|[^"\\])*"', "", file.read_text("utf-8"), flags=re.DOTALL)


def test_no_file_calls_one_that_calls_it() -> None:
    sources = {file.name: code(file) for file in CORE}
    definition = re.compile(r"(?m)^(?!static\b)\w[\w *]*?\b(\w+)\([^;{]*\)\s*\{")
    defined = {name: set(definition.findall(text)) for name, text in sources.items()}
    assert sum(map(len, defined.values())) > 100
    calls = {
        name: {other for other in sources if set(re.findall(r"\w+", text)) & (defined[other] - defined[name])}
        for name, text in sources.items()
    }
    TopologicalSorter(calls).prepare()  # raises CycleError, which has the circle


def test_the_version_is_that_of_the_package() -> None:
    (version,) = re.findall(r'#define MIXLING_VERSION "(.*)"', (NATIVE / "mixling.h").read_text("utf-8"))
    assert version == mixling.__version__


@pytest.mark.slow
@pytest.mark.skipif(which("gcc") is None, reason="there is no gcc")
@pytest.mark.parametrize("file", SOURCES, ids=lambda file: file.relative_to(NATIVE).as_posix())
def test_there_is_no_warning(file: Path) -> None:
    flags = ["-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror", "-I", sysconfig.get_paths()["include"]]
    subprocess.run(["gcc", *flags, "-c", "-o", "/dev/null", str(file)], check=True)
