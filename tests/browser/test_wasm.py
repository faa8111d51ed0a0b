"""The compiled engine that is committed is what the C sources give, and needs nothing of its surroundings."""

from __future__ import annotations

import gzip
import importlib.metadata
import json
import re
import shutil
import subprocess
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

import pytest

from mixling import __version__
from mixling.browser import without_comments

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "mixling" / "browser" / "package"
WASM = (PACKAGE / "mixling.wasm").read_bytes()
TRAINER = PACKAGE.parent / "trainer"


@pytest.fixture(scope="module")
def script(load_script: Callable[[str], ModuleType]) -> ModuleType:
    return load_script("tools/wasm.py")


def test_it_was_compiled_from_these_sources(script: ModuleType) -> None:
    for file in (script.ENGINE, script.TRAINER):
        assert file.read_bytes().endswith(script.section(file)), "the C sources have changed: run python tools/wasm.py"


@pytest.mark.slow
def test_compiling_gives_the_same_bytes(script: ModuleType) -> None:
    if find_spec("ziglang") is None or importlib.metadata.version("ziglang") != script.ZIG:
        pytest.skip(f"ziglang {script.ZIG} is not installed")
    for file in (script.ENGINE, script.TRAINER):
        assert script.build(file) == file.read_bytes()


def test_the_download_is_small() -> None:
    content = "".join(without_comments(path.read_text("utf-8")) for path in sorted(PACKAGE.glob("*.js")))
    assert len(gzip.compress(WASM)) + len(gzip.compress(content.encode())) <= 68_000


def test_the_package_has_the_version_of_the_library() -> None:
    package = json.loads((ROOT / "web" / "package.json").read_text())
    assert package["version"] == __version__


def test_types_name_what_there_is() -> None:
    exported = set(re.findall(r"^export (?:class|const) (\w+)", (PACKAGE / "index.js").read_text(), re.M))
    exported |= set(re.findall(r"\w+", re.search(r"^export \{(.*?)\}", (PACKAGE / "index.js").read_text(), re.M)[1]))  # type: ignore[index]
    declared = set(re.findall(r"^export class (\w+)", (PACKAGE / "index.d.ts").read_text(), re.M))
    assert exported == declared
    assert len(exported) > 4


@pytest.mark.skipif(shutil.which("node") is None, reason="there is no node")
@pytest.mark.parametrize(
    ("wasm", "scripts"),
    [
        (PACKAGE / "mixling.wasm", [PACKAGE / "engine.js"]),
        (TRAINER / "trainer.wasm", [PACKAGE / "engine.js", TRAINER / "core.js"]),
    ],
)
def test_it_imports_nothing(wasm: Path, scripts: list[Path]) -> None:
    code = (
        "const m = new WebAssembly.Module(require('fs').readFileSync(0));"
        "console.log(JSON.stringify([WebAssembly.Module.imports(m), WebAssembly.Module.exports(m).map(e => e.name)]))"
    )
    done = subprocess.run(["node", "-e", code], input=wasm.read_bytes(), capture_output=True, check=True, timeout=60)
    imports, exports = json.loads(done.stdout)
    assert imports == []
    used = set(re.findall(r"\b(?:mixling_\w+|malloc|free)\b(?=[,( ])", "".join(file.read_text() for file in scripts)))
    assert {"memory", "_initialize"} <= set(exports)
    assert {name for name in exports if name.startswith("mixling")} <= used


@pytest.mark.skipif(shutil.which("gcc") is None, reason="there is no gcc")
def test_small_functions_are_those_of_the_c_library(tmp_path: Path) -> None:
    names = [f"--redefine-sym={name}=small_{name}" for name in ("sin", "cos", "sinf", "cosf", "qsort")]
    own, program = str(tmp_path / "own.o"), str(tmp_path / "small")
    commands = [
        ["gcc", "-std=gnu11", "-O1", "-fno-builtin", "-c", str(PACKAGE.parent / "small.c"), "-o", own],
        ["objcopy", *names, own],
        ["gcc", "-std=gnu11", "-O1", str(Path(__file__).with_name("small.c")), own, "-lm", "-o", program],
    ]
    for command in commands:
        subprocess.run(command, check=True, timeout=60)
    done = subprocess.run([program], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "equal\n")
