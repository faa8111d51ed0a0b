"""The inputs that fuzzing kept, findings among them: in C under sanitizers, in Python in this process."""

from __future__ import annotations

import contextlib
import importlib.util
import subprocess
import sys
import types
from pathlib import Path
from shutil import which

import pytest

FUZZ = Path(__file__).parents[2] / "fuzz"
NATIVE = FUZZ.parent / "src" / "mixling" / "native"
FLAGS = ("-std=gnu11", "-O0", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=undefined")


@pytest.fixture(scope="module")
def objects(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """The library and the program that runs inputs, under sanitizers."""
    folder = tmp_path_factory.mktemp("objects")
    sources = [file for file in NATIVE.glob("*.c") if file.name not in ("python.c", "example.c")]
    command = ["gcc", *FLAGS, f"-I{NATIVE}", "-c", *map(str, sources), str(FUZZ / "replay.c")]
    subprocess.run(command, check=True, cwd=folder, timeout=600)
    return list(folder.glob("*.o"))


@pytest.mark.slow
@pytest.mark.skipif(which("gcc") is None, reason="there is no gcc")
@pytest.mark.parametrize("target", ["model_file", "text", "json", "columns"])
def test_no_input_has_a_finding_in_c(target: str, objects: list[Path], tmp_path: Path) -> None:
    (tmp_path / "models").symlink_to(FUZZ / "models")
    program = tmp_path / target
    command = ["gcc", *FLAGS, f"-I{NATIVE}", str(FUZZ / f"{target}.c"), *map(str, objects), "-lm", "-o", str(program)]
    subprocess.run(command, check=True, timeout=600)
    inputs = sorted((FUZZ / "corpus" / target).iterdir()) + (
        sorted((FUZZ / "models").iterdir()) if target == "model_file" else []
    )
    done = subprocess.run([program, *inputs], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout == f"{len(inputs)} inputs\n"


def target_in_python(name: str, monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    """Return a target without atheris, which is needed to make inputs only."""
    atheris = types.SimpleNamespace(instrument_imports=lambda **_: contextlib.nullcontext())
    monkeypatch.setitem(sys.modules, "atheris", atheris)  # type: ignore[arg-type]
    spec = importlib.util.spec_from_file_location(name, FUZZ / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
@pytest.mark.parametrize("target", ["http_requests", "readers"])
def test_no_input_has_a_finding_in_python(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module = target_in_python(target, monkeypatch)
    for path in sorted((FUZZ / "corpus" / target).iterdir()):
        module.try_bytes(path.read_bytes())
