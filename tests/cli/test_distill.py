"""Whole distillations on the command line."""

from __future__ import annotations

import json
import sys
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
    many, few, validation = (
        write(tmp_path / f"{n}.jsonl", row(k)) for n, k in (("many", 600), ("few", 24), ("validation", 60))
    )
    done = call("train", many, "--validation", validation, "-o", tmp_path / "teacher", "--epochs", "4", *small)
    assert done.code == 0, done.err
    text = tmp_path / "more.txt"
    held_out = json.loads(validation.read_text().splitlines()[0])["text"]
    text.write_text("\n".join([held_out, *(item["text"] for item in row(600))]) + "\n")
    command = [
        "distill",
        few,
        "--validation",
        validation,
        "--teacher",
        tmp_path / "teacher",
        "--unlabeled",
        text,
        "--epochs",
        "6",
        "--set",
        "distill.fragments=0",
    ]
    done = call(*command, "-o", tmp_path / "student", "--set", "model.text.vocabulary_size=200", *small)
    assert done.code == 0, done.err
    assert "1 unlabeled texts are also validation or test rows and are left out" in done.err
    assert "teacher: validation accuracy" in done.err
    student = json.loads((tmp_path / "student" / "metrics.json").read_text())
    assert student["validation"]["accuracy"] > 0.9, student
    assert json.loads((tmp_path / "student" / "teacher" / "teacher.json").read_text())["unlabeled"] == 600
    kept = sorted((tmp_path / "student" / "teacher" / "answers").iterdir())
    times = [path.stat().st_mtime_ns for path in kept]
    qrnn = [
        "--model",
        "pqrnn",
        "--set",
        "model.text.vocabulary_size=200",
        "--set",
        "model.layers.0.mixers.0.hidden_dim=16",
    ]
    done = call(*command, "-o", tmp_path / "student", "--overwrite", *qrnn)
    assert done.code == 0, done.err
    assert [path.stat().st_mtime_ns for path in kept] == times  # another student, the same answers
    student = json.loads((tmp_path / "student" / "metrics.json").read_text())
    assert student["validation"]["accuracy"] > 0.9, student
    assert call("predict", tmp_path / "student", "gut01 gut02").code == 0


@pytest.mark.slow
def test_a_student_of_models_like_itself(call: Any, tmp_path: Path) -> None:
    """Its members are trained once: a second student finds them, and their answers."""
    rng = np.random.default_rng(1)
    rows = []
    for _ in range(80):
        label = int(rng.integers(2))
        words = rng.choice([f"{('mau', 'gut')[label]}{i}" for i in range(9)], size=4)
        rows.append({"text": " ".join(words), "label": ("no", "yes")[label]})
    data = write(tmp_path / "rows.jsonl", rows)
    (tmp_path / "more.txt").write_text("\n".join(f"gut{i} gut{j} mau{i}" for i in range(9) for j in range(9)) + "\n")
    command = ["distill", data, "--teacher", "self", "--unlabeled", tmp_path / "more.txt", "-o", tmp_path / "run"]
    command += ["--epochs", "2", "--model", "pnlp-mixer-x-small", "--set", "model.dim=8", "--set", "distill.members=2"]
    command += ["--set", "model.text.projection.num_hashes=8", "--set", "init.training_texts=false"]
    done = call(*command)
    assert done.code == 0, done.err
    assert "teacher, model 1 of 2: training on 58 examples" in done.err
    assert "teacher, model 2 of 2: validation accuracy" in done.err
    made = [tmp_path / "run" / "teacher" / f"self-{i}" / "model.onnx" for i in (1, 2)]
    contents = [path.read_bytes() for path in made]
    assert contents[0] != contents[1]  # of seeds of their own
    again = call(*command, "--overwrite", "--set", "model.head.dropout=0.0")
    assert again.code == 0, again.err
    assert "teacher, model 1 of 2: training" not in again.err
    assert again.err.count("trained before") == 2
    changed = call(*command, "--overwrite", "--set", "model.dim=4")
    assert "teacher, model 1 of 2: training" in changed.err
    assert made[0].read_bytes() != contents[0]


def test_there_must_be_a_teacher(call: Any, tmp_path: Path) -> None:
    data = write(tmp_path / "rows.jsonl", [{"text": f"word{i}", "label": "ab"[i % 2]} for i in range(20)])
    for options in ([], ["--unlabeled", data]):
        done = call("distill", data, "-o", tmp_path / "run", *options)
        assert done.code == 2
        assert "error: no teacher; --teacher names one: a run folder" in done.err
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_a_resumed_student_asks_for_nothing_again(call: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [{"text": f"{'gut' if i % 2 else 'mau'}{i % 7} word{i % 5}", "label": "ab"[i % 2]} for i in range(60)]
    data = write(tmp_path / "rows.jsonl", rows)
    (tmp_path / "more.txt").write_text("\n".join(f"gut{i % 7} mau{i % 3} more{i % 11}" for i in range(80)) + "\n")
    small = ["--set", "model.dim=8", "--set", "model.text.projection.num_hashes=8", "--set", "distill.members=1"]

    def command(name: str) -> list[Any]:
        more = ["--unlabeled", tmp_path / "more.txt", "-o", tmp_path / name]
        return ["distill", data, "--teacher", "self", *more, *small]

    whole = call(*command("whole"))
    assert whole.code == 0, whole.err
    module = sys.modules["mixling.runs.run"]
    write_model, begun = module.write_model, []

    def cut_off(*args: Any, **options: Any) -> Any:
        begun.append(args)
        if len(begun) == 2:  # of the member, then of the student
            raise KeyboardInterrupt
        return write_model(*args, **options)

    monkeypatch.setattr(module, "write_model", cut_off)
    done = call(*command("cut"))
    assert done.code == 130
    assert f"interrupted; resume with: mixling distill --resume -o {tmp_path / 'cut'}" in done.err
    done = call("distill", "--resume", "-o", tmp_path / "cut")
    assert done.code == 0, done.err
    assert "is trained" not in done.err
    assert (tmp_path / "cut" / "model.onnx").read_bytes() == (tmp_path / "whole" / "model.onnx").read_bytes()
