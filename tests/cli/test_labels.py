"""Labels in columns of their own, and what is said of labels before a training and in an audit."""

from __future__ import annotations

import csv
import json
from pathlib import Path

from mixling.errors import command_line

from .conftest import Call

NAMES = ("billing", "login", "urgent")
WORDS = ("invoice", "password", "now")


def write_csv(path: Path, header: list[str], rows: list[list[object]]) -> Path:
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([header, *rows])
    return path


def test_a_column_for_each_label(call: Call, tmp_path: Path) -> None:
    rows: list[list[object]] = []
    for i in range(60):
        marks = [i % 2, (i + 1) % 2, (i // 2) % 2]
        rows.append([" ".join([*(w for w, mark in zip(WORDS, marks, strict=True) if mark), f"please {i}"]), *marks])
    path = write_csv(tmp_path / "a.csv", ["text", *NAMES], rows)
    done = call("train", path, "--label", ",".join(NAMES), "--epochs", 1, "-o", tmp_path / "m")
    assert done.code == 0, done.err
    assert "task: multi_label (columns of the task are named: labels" in done.err
    done = call("evaluate", tmp_path / "m", path)  # the run knows the columns
    assert "60 texts" in done.out
    assert [line.split()[0] for line in done.out.splitlines() if line.startswith(NAMES)] == list(NAMES)
    audit = ["audit", path, "--label", "billing, login,urgent", "--epochs", 1, "--folds", 2]
    done = call(*audit, "-o", tmp_path / "audit")
    assert done.code == 0, done.err
    assert "60 examples, 3 labels" in done.out
    done = call("train", path, "-o", tmp_path / "n")
    assert done.code == 2
    assert "columns of 0 and 1, one for each label, with --label billing,login,urgent" in done.err


def test_look_alikes_and_contradictions_are_reported_before_the_training_and_first_by_audit(
    call: Call, tmp_path: Path
) -> None:
    names = ["billing", "Billing", "log\u200bin", "login"]
    rows: list[list[object]] = [[f"{WORDS[i % 4 // 2]} {i // 4}", names[i % 4]] for i in range(80)]
    path = write_csv(tmp_path / "a.csv", ["text", "label"], rows)
    lines = [
        "labels that differ only in case: Billing, billing (20, 20 examples)",
        "labels that differ only in invisible characters: 'login', 'log\\u200bin' (20, 20 examples)",
    ]
    done = call("train", path, "--epochs", 1, "-o", tmp_path / "m")
    assert done.code == 0, done.err
    said = done.err.splitlines()
    list_them = command_line("mixling", "audit", path, "--text", "text", "--label", "label", "-o", "audit/")
    contradiction = f"40 texts occur with different labels (80 examples); to list them: {list_them}"
    at = said.index(lines[0])
    assert said[at : at + 3] == [*lines, contradiction]
    assert any(" training, " in line for line in said[at:])
    done = call("audit", path, "--epochs", 1, "--folds", 2, "-o", tmp_path / "audit")
    assert done.out.splitlines()[:3] == [*lines, "80 examples, 4 labels"]
    assert "texts with different labels: 40 (80 examples)" in done.out
    page = (tmp_path / "audit" / "report.html").read_text(encoding="utf-8")
    assert "log\\u200bin" in page
    assert "log\u200bin" not in page
    assert "log\u200bin" in (tmp_path / "audit" / "rows.csv").read_text(encoding="utf-8")


def test_pairs_in_one_column_are_refused(call: Call, tmp_path: Path) -> None:
    rows = [{"text": ["first text", f"second text {i}"], "label": "ab"[i % 2]} for i in range(40)]
    path = tmp_path / "a.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    done = call("train", path, "-o", tmp_path / "m")
    assert done.code == 2
    assert "each text is a list whose words contain blanks, such as ['first text'," in done.err
    assert "write a pair of texts in two columns (--text twice)" in done.err
