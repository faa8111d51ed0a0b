"""A kill of the benchmark, by the same driver: what a resumed run ends with has the uninterrupted run's bytes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGKILL")
@pytest.mark.parametrize(("kills", "further"), [(1, ()), (3, ("--forks", "--", "--set", "train.backend=native"))])
def test_a_kill_and_a_resume_end_with_the_bytes_of_the_uninterrupted_run(
    tmp_path: Path, kills: int, further: tuple[str, ...]
) -> None:
    out = tmp_path / "result.json"
    options = ["--kills", str(kills), "--rows", "200", "--epochs", "6", "--seed", "5", "--out", str(out), *further]
    done = subprocess.run(
        [sys.executable, str(ROOT / "benchmarks" / "kill_resume.py"), *options],
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    result = json.loads(out.read_text("utf-8"))
    assert result["kills"] == kills
    assert result["differences"] == []
    wanted = {
        "model.safetensors",
        "model.onnx",
        "config.json",
        "vocab.txt",
        "metrics.json",
        "metrics.jsonl",
        "README.md",
    }
    assert wanted <= set(result["compared_files"])
    assert not [name for name in result["compared_files"] if name.startswith((".", "checkpoint"))]
