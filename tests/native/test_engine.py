"""Which engine is taken, and what damaged files do."""

from __future__ import annotations

import json
import pickle
import re
import subprocess
import sys
from collections.abc import Callable
from itertools import product
from pathlib import Path
from shutil import which

import numpy as np
import pytest

from mixling import ConfigError, ModelFileError, Predictor
from mixling.export import amend
from mixling.native._core import Model
from mixling.runtime import open_native
from mixling.runtime.onnx import seal

NATIVE = Path(__file__).parents[2] / "src" / "mixling" / "native"
SEAL_LENGTH = 84


def test_what_it_cannot_run_is_left_to_onnx_runtime(
    export: Callable[..., bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    content = export("mixling-tiny", layers=[{"feed_forward": {"type": "gated"}}])
    predictor = Predictor(content)
    assert predictor.engine.startswith("onnx (was exported without")
    assert predictor.predict("what a film").label  # type: ignore[union-attr]
    monkeypatch.setenv("MIXLING_ENGINE", "native")
    with pytest.raises(ConfigError, match="needs ONNX Runtime: was exported without"):
        Predictor(content)
    monkeypatch.setenv("MIXLING_ENGINE", "fast")
    with pytest.raises(ConfigError, match="MIXLING_ENGINE is 'fast'; allowed: native, onnx"):
        Predictor(content)


def test_prediction_starts_without_packages_that_it_does_not_need(export: Callable[..., bytes], tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(export("mixling-tiny"))
    script = (
        "import sys; before = set(sys.modules); "
        f"import mixling; predictor = mixling.Predictor({str(tmp_path)!r}); "
        "assert predictor.predict('what a film').probabilities; assert len(predictor.predict(['a', 'b'])) == 2; "
        "slow = {'numpy', 'onnxruntime', 'pydantic', 'tokenizers', 'torch', 'dataclasses', 'inspect', 're', 'typing'}; "
        "loaded = slow & (set(sys.modules) - before); assert not loaded, loaded; "
        "assert predictor.predict_one(['what', 'a', 'film']).label; assert predictor.metadata.task; "
        "assert 'onnxruntime' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)


def test_what_is_opened_later_is_all_there(export: Callable[..., bytes], tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(export("mixling-tiny"))
    predictor = Predictor(path)
    assert "_network" not in vars(predictor)
    assert predictor.engine.startswith("native (")
    assert "_network" not in vars(predictor)
    assert repr(predictor).startswith(f"<Predictor of {path}: classification, 3 labels ('bad', 'good', 'über'), ")
    before = predictor.predict("what a film")
    for copied in (pickle.loads(pickle.dumps(predictor)), Predictor(path.read_bytes()), Predictor(tmp_path)):
        assert copied.predict("what a film") == before
    assert predictor.predict_proba([]).shape == (0, 3)
    assert not hasattr(predictor, "nothing")
    shared = Predictor(path, encoder=predictor.encoder)
    assert shared.encoder is predictor.encoder


def test_models_that_abstain(export: Callable[..., bytes], texts: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    plain = export("mixling-tiny")
    threshold = float(np.median(Predictor(plain).predict_proba(texts).max(1)))
    content = amend(plain, threshold=threshold)
    native = Predictor(content)
    assert native.engine.startswith("native (")
    found = native.predict(texts)
    lines = native.json_lines(texts)
    monkeypatch.setenv("MIXLING_ENGINE", "onnx")
    expected = Predictor(content).predict(texts)
    assert isinstance(found, list)
    assert isinstance(expected, list)
    assert {item.abstained for item in found} == {False, True}
    for one, other, line, text in zip(found, expected, lines, texts, strict=True):
        assert one.probabilities is not None
        near = abs(max(one.probabilities.values()) - threshold) < 1e-4
        assert near or one.abstained == other.abstained == native.predict_one(text).abstained
        assert json.loads(line)["abstained"] == one.abstained
        assert list(json.loads(line)) == list(one.to_dict())
    assert "abstained" not in Predictor(plain).json_lines(texts[:1])[0]


def test_a_changed_file_that_is_opened_later_is_refused_then(export: Callable[..., bytes]) -> None:
    """C does not read the graph, which ONNX Runtime would."""
    content = export("mixling-tiny")[:-SEAL_LENGTH]
    assert b"MatMul" in content
    predictor = Predictor(seal(content.replace(b"MatMul", b"MatMuI")))
    assert predictor.predict("what a film").label  # type: ignore[union-attr]
    with pytest.raises(ModelFileError, match="MatMuI"):
        _ = predictor.metadata


@pytest.mark.parametrize(
    ("old", "new"), [(b'"format_version": 1', b'"format_version": 2'), (b'"bad", "good"', b'"bad", "bad" ')]
)
def test_what_c_refuses_has_the_errors_of_python(export: Callable[..., bytes], old: bytes, new: bytes) -> None:
    content = export("mixling-tiny")[:-SEAL_LENGTH]
    assert old in content
    with pytest.raises(ModelFileError, match=r"format version 2|occurs twice"):
        Predictor(seal(content.replace(old, new)))


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
        (b'["bad", "good"', b'["", "badgood"'),
        (b'["bad", "good"', rb'["\ud800", "a"'),
    ):
        assert old in body
        changed = seal(body.replace(old, new))
        with pytest.raises((ValueError, NotImplementedError)):
            Model(changed, 0, 1)
        engine, reason = open_native(changed)
        assert engine is None
        assert reason


def test_a_size_beyond_its_limit_is_refused(export: Callable[..., bytes]) -> None:
    """A token is the sum of at most 17 parts, for which there is memory: limits of one digit count, too."""
    body = export("mixling-tiny")[:-SEAL_LENGTH]
    assert b'"window": 1' in body
    engine, reason = open_native(seal(body.replace(b'"window": 1', b'"window": 9')))
    assert engine is None
    assert reason == "a size in its plan is larger than this build supports"


LIBRARY = [file for file in NATIVE.glob("*.c") if file.name not in ("python.c", "example.c")]
OPTIMIZED = ("-O3", "-fno-math-errno", "-fno-trapping-math", "-Wall", "-Wextra", "-Werror")


def compiled(folder: Path, *options: object) -> None:
    command = ["gcc", "-std=gnu11", f"-I{NATIVE}", *map(str, options)]
    subprocess.run(command, check=True, cwd=folder, timeout=300)


@pytest.fixture(scope="module")
def alike(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """The objects of the library's files that do not know which instructions there are."""
    folder = tmp_path_factory.mktemp("objects")
    compiled(folder, *OPTIMIZED, "-c", *(file for file in LIBRARY if "MIXLING_INSTRUCTIONS" not in file.read_text()))
    return list(folder.glob("*.o"))


@pytest.mark.slow
@pytest.mark.skipif(which("gcc") is None, reason="there is no gcc")
@pytest.mark.parametrize("level", [0, 1, 2, 3])
def test_all_instructions_give_the_same_logits(
    export: Callable[..., bytes], texts: list[str], alike: list[Path], tmp_path: Path, level: int
) -> None:
    lines = [text for text in texts if len(text) < 1000 and not {"\n", "\x00"} & set(text) and text.isprintable()]
    assert len(lines) > 50
    given = "".join(f"{line}\n" for line in lines)
    program = tmp_path / "logits"
    others = [file for file in LIBRARY if "MIXLING_INSTRUCTIONS" in file.read_text()]
    sources = (Path(__file__).parent / "logits.c", *others, *alike)
    compiled(tmp_path, *OPTIMIZED, f"-DMIXLING_INSTRUCTIONS={level}", *sources, "-lm", "-o", program)
    path = tmp_path / "model.onnx"
    for preset, precision in product(("mixling-tiny", "mixling-mixer"), ("float32", "int8")):
        path.write_bytes(export(preset, dim=24, precision=precision))
        done = subprocess.run(
            [str(program), str(path)], input=given.encode(), capture_output=True, check=True, timeout=60
        )
        name, *rows = done.stdout.decode().splitlines()
        assert name in ("plain", "avx2", "avx512")[: level + 1]
        engine, _ = open_native(path.read_bytes())
        assert engine is not None
        expected = engine.logits(lines)[0]
        # A value at the border between two integers may be rounded to either.
        tolerance = 5e-6 if precision == "float32" else 0.015 * np.ptp(expected)
        got = [list(map(float, row.split())) for row in rows]
        np.testing.assert_allclose(got, expected, atol=tolerance, err_msg=f"{preset}, {precision}")


@pytest.mark.slow
@pytest.mark.skipif(which("gcc") is None, reason="there is no gcc")
def test_the_example_labels_lines(export: Callable[..., bytes], tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(export("mixling-tiny"))
    program = str(tmp_path / "label")
    compiled(tmp_path, NATIVE / "example.c", *LIBRARY, "-lm", "-o", program)
    texts = ["what a film", "", "ça alors"]
    done = subprocess.run([program, str(path)], input="\n".join(texts).encode(), capture_output=True, check=True)
    assert done.stdout.decode().splitlines() == [p.label for p in Predictor(path).predict(texts)]  # type: ignore[union-attr]
    done = subprocess.run([program, __file__], stdin=subprocess.DEVNULL, capture_output=True)
    assert done.returncode == 2
    assert b"is not a complete ONNX file" in done.stderr


@pytest.mark.slow
@pytest.mark.skipif(which("gcc") is None, reason="there is no gcc")
def test_the_program_of_the_guide_is_right(export: Callable[..., bytes], tmp_path: Path) -> None:
    guide = (NATIVE.parents[2] / "docs" / "embedding.md").read_text("utf-8")
    (program,) = re.findall(r"```c\n(.*?)```", guide, re.DOTALL)
    (tmp_path / "label.c").write_text(program)
    (tmp_path / "model.onnx").write_bytes(export("mixling-tiny"))
    source = f"{NATIVE.parents[2]}/src/"
    commands = "".join(re.findall(r"    ((?:mkdir|cp|cc) .*\n)", guide)).replace("DIR", "dir").replace("src/", source)
    commands = re.sub(r"-O\d", "-O0", commands.replace("cc ", "gcc -Wall -Werror "))
    subprocess.run(["sh", "-ec", commands], cwd=tmp_path, check=True, timeout=300)
    done = subprocess.run(["./label"], cwd=tmp_path, capture_output=True, check=True, text=True)
    expected = Predictor(tmp_path).predict(["what a film", "it isn't good"])
    assert done.stdout.splitlines() == [prediction.label for prediction in expected]  # type: ignore[union-attr]
