"""The default model reads which text of a pair has a word."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import pytest

from mixling import Predictor


def pairs_of(number: int, draw: random.Random) -> list[tuple[str, str, str]]:
    rows = []
    for _ in range(number):
        texts = [[f"w{draw.randrange(50)}" for _ in range(5)] for _ in range(2)]
        label = draw.randrange(2)
        texts[label][draw.randrange(5)] = "refund"
        rows.append((" ".join(texts[0]), " ".join(texts[1]), ("first", "second")[label]))
    return rows


@pytest.mark.slow
def test_the_text_that_has_a_word_is_told(tmp_path: Path) -> None:
    draw = random.Random(0)
    train, test = pairs_of(300, draw), pairs_of(200, draw)
    lines = ["a,b,label", *map(",".join, train)]
    (tmp_path / "train.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    out = tmp_path / "run"
    subprocess.run(
        [
            sys.executable,
            "-m",
            "mixling",
            "train",
            str(tmp_path / "train.csv"),
            "--text",
            "a",
            "--text-pair",
            "b",
            "-o",
            str(out),
        ],
        check=True,
    )
    answers = Predictor(out).predict([(a, b) for a, b, _ in test])
    right = [answer.label == label for answer, (_, _, label) in zip(answers, test, strict=True)]
    assert sum(right) >= 0.97 * len(test)
