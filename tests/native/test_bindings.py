"""The Java and Rust bindings, as docs/bindings.md uses them, give the answers of Python; skipped without a compiler."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from mixling import Predictor

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "bindings.md").read_text("utf-8")
DEMO = ROOT / "src" / "mixling" / "samples" / "demo.onnx"
TEXT = "where is my parcel?"

pytestmark = [pytest.mark.slow, pytest.mark.skipif(shutil.which("gcc") is None, reason="there is no gcc")]


def block(language: str, number: int = 0) -> str:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.M | re.S)[number]


def shell(script: str, folder: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "MIXLING": str(ROOT), "CFLAGS": "-O0", "CARGO_TARGET_DIR": str(folder / "target")}
    script = re.sub("-O3 ", "-O0 ", script)  # seconds instead of a minute
    return subprocess.run(
        ["sh", "-c", script], cwd=folder, env=environment, capture_output=True, text=True, timeout=300
    )


def check(run: str, folder: Path) -> None:
    """Run the example on a model, and on a file that is none."""
    done = shell(run, folder)
    assert done.returncode == 0, done.stderr
    best, *rows = done.stdout.splitlines()
    expected = Predictor(folder / "model.onnx").predict_one(TEXT).top(3).probabilities
    assert expected is not None
    assert best == rows[0].rpartition(" ")[0] == next(iter(expected))
    assert [row.rpartition(" ")[0] for row in rows] == list(expected)
    assert [float(row.rpartition(" ")[2]) for row in rows] == pytest.approx(list(expected.values()), abs=1e-3)
    done = shell(run.splitlines()[-1].replace("model.onnx", "none.onnx"), folder)
    assert done.returncode != 0
    assert "none.onnx: " in done.stderr
    assert "is not a complete ONNX file" in done.stderr


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    shutil.copyfile(DEMO, tmp_path / "model.onnx")
    (tmp_path / "none.onnx").write_bytes(b"no model")
    return tmp_path


@pytest.mark.skipif(shutil.which("javac") is None, reason="there is no JDK: apt-get install default-jdk-headless")
def test_the_java_example(folder: Path) -> None:
    (folder / "Label.java").write_text(block("java"))
    commands = next(found for found in re.findall(r"(?ms)^```sh\n(.*?)^```", PAGE) if "javac" in found)
    check(f"set -e\n{commands}".strip(), folder)


@pytest.mark.skipif(shutil.which("cargo") is None, reason="there is no Rust: apt-get install cargo")
def test_the_rust_example(folder: Path) -> None:
    (folder / "src").mkdir()
    (folder / "Cargo.toml").write_text(block("toml").replace("MIXLING", str(ROOT)))
    (folder / "src" / "main.rs").write_text(block("rust"))
    commands = next(found for found in re.findall(r"(?ms)^```sh\n(.*?)^```", PAGE) if "cargo" in found)
    check(commands.replace("--release ", "").strip(), folder)


@pytest.mark.parametrize("name", ["java/Mixling.java", "java/mixling_jni.c", "rust/src/lib.rs", "rust/build.rs"])
def test_bindings_are_small_and_name_functions_of_the_header(name: str) -> None:
    text = (ROOT / "bindings" / name).read_text("utf-8")
    assert len(text.splitlines()) <= 300
    header = (ROOT / "src" / "mixling" / "native" / "mixling.h").read_text("utf-8")
    assert not set(re.findall(r"\b(mixling_\w+)\(", text)) - set(re.findall(r"\b(mixling_\w+)\(", header))
