"""Which engine is taken, and what damaged files do."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from shutil import which

import pytest

pytest.importorskip("mixling.native._core", reason="the native engine is not built: run `make native`")

from mixling import ConfigError, Predictor
from mixling.native._core import Model
from mixling.runtime.native import open_native
from mixling.runtime.onnx_file import seal

NATIVE = Path(__file__).parents[2] / "src" / "mixling" / "native"
SEAL_LENGTH = 84


def test_what_it_cannot_run_is_left_to_onnx_runtime(
    export: Callable[..., bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    content = export("mixling-tiny", layers=[{"mixers": [{"type": "pooling"}]}])
    predictor = Predictor(content)
    assert predictor.engine.startswith("onnx (was exported without")
    assert predictor.predict("what a film").label  # type: ignore[union-attr]
    monkeypatch.setenv("MIXLING_ENGINE", "native")
    with pytest.raises(ConfigError, match="needs ONNX Runtime: was exported without"):
        Predictor(content)
    monkeypatch.setenv("MIXLING_ENGINE", "fast")
    with pytest.raises(ConfigError, match="MIXLING_ENGINE is 'fast'; allowed: native, onnx"):
        Predictor(content)


def test_onnx_runtime_is_not_loaded_for_a_model_that_the_native_engine_runs(
    export: Callable[..., bytes], tmp_path: Path
) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(export("mixling-tiny"))
    script = (
        "import sys; from mixling.runtime.predictor import Predictor; "
        f"assert Predictor({str(path)!r}).predict('what a film').label; assert 'onnxruntime' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)


def test_damaged_files_are_refused(export: Callable[..., bytes]) -> None:
    content = export("mixling-tiny")
    body = content[:-SEAL_LENGTH]
    for data in (
        b"",
        b"x",
        content[:-1],
        content[:1000],
        content[1:],
        content + b"x",
        content.replace(b'"dim"', b'"dym"'),
    ):
        with pytest.raises(ValueError, match=r"damaged|not a mixling model"):
            Model(data, 0, 1)
    for old, new in (
        (b'"dim": 32', b'"dim": 64'),
        (b'"hidden": 128', b'"hidden": 129'),
        (b'"contract"', b'"contrast"'),
        (b'"num_features": 2048', b'"num_features": 2047'),
        (b'"pooling": "all"', b'"pooling": "max"'),
        (b"[UNK]\n", b"[UNC]\n"),
        (b'"names": ["bad"', b'"names": [1,   '),
    ):
        assert old in body
        changed = seal(body.replace(old, new))
        with pytest.raises((ValueError, NotImplementedError)):
            Model(changed, 0, 1)
        engine, reason = open_native(changed)
        assert engine is None
        assert reason


@pytest.mark.slow
@pytest.mark.skipif(which("gcc") is None, reason="there is no gcc")
def test_changed_files_do_no_harm(export: Callable[..., bytes], tmp_path: Path) -> None:
    """2,000 changed copies under the address and undefined behaviour sanitisers."""
    path, program = tmp_path / "model.onnx", tmp_path / "mutate"
    path.write_bytes(export("mixling-tiny", text={"projection": {"num_features": 64, "num_hashes": 8}}, pairs=False))
    sources = [str(file) for file in NATIVE.glob("*.c") if file.name not in ("python.c", "example.c")]
    flags = ["-std=gnu11", "-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=undefined"]
    here = Path(__file__).parent / "mutate.c"
    subprocess.run(["gcc", *flags, f"-I{NATIVE}", str(here), *sources, "-lm", "-o", str(program)], check=True)
    done = subprocess.run([str(program), str(path), "2000", "1"], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.startswith("opened ")
