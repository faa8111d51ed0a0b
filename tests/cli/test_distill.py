"""Whole distillations on the command line."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest


def write(path: Path, rows: Sequence[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.mark.slow
def test_a_student_of_a_saved_model(call: Any, tmp_path: Path) -> None:
    """The teacher knows the rule from many rows, the student has few: what it was taught is better than what it has."""
    rng = np.random.default_rng(0)
    good, bad = [[f"{stem}{i:02}" for i in range(40)] for stem in ("gut", "mau")]

    def row(count: int) -> list[dict[str, Any]]:
        out = []
        for _ in range(count):
            label = rng.integers(2)
            out.append({"text": " ".join(rng.choice((bad, good)[label], size=4)), "label": ("no", "yes")[label]})
        return out

    small = ["--model", "pnlp-mixer-x-small", "--set", "model.dim=16", "--set", "model.text.projection.num_hashes=16"]
    many, few, dev = (write(tmp_path / f"{n}.jsonl", row(k)) for n, k in (("many", 600), ("few", 24), ("dev", 60)))
    done = call("train", many, "--dev", dev, "-o", tmp_path / "teacher", "--epochs", "4", *small)
    assert done.code == 0, done.err
    text = tmp_path / "more.txt"
    held_out = json.loads(dev.read_text().splitlines()[0])["text"]
    text.write_text("\n".join([held_out, *(item["text"] for item in row(600))]) + "\n")
    command = ["distill", few, "--dev", dev, "--teacher", tmp_path / "teacher", "--unlabelled", text, "--epochs", "6"]
    done = call(*command, "-o", tmp_path / "student", "--set", "model.text.vocabulary_size=200", *small)
    assert done.code == 0, done.err
    assert "1 unlabelled texts stand in the dev or test rows and are left out" in done.err
    assert "teacher: dev accuracy" in done.err
    student = json.loads((tmp_path / "student" / "metrics.json").read_text())
    assert student["dev"]["accuracy"] > 0.9, student
    assert json.loads((tmp_path / "student" / "teacher" / "teacher.json").read_text())["unlabelled"] == 600
    kept = sorted((tmp_path / "student" / "teacher" / "answers").iterdir())
    times = [path.stat().st_mtime_ns for path in kept]
    done = call(*command, "-o", tmp_path / "student", "--overwrite", "--seed", "0", *small)
    assert done.code == 0, done.err
    assert [path.stat().st_mtime_ns for path in kept] == times  # another student, the same answers
    assert call("predict", tmp_path / "student", "gut01 gut02").code == 0
