"""`mixling suggest` as a user runs it."""

from __future__ import annotations

import csv
import json
from pathlib import Path

from mixling import Predictor

from .conftest import Call


def test_the_text_that_the_model_is_least_sure_of_is_first(
    call: Call, model: Path, reviews: Path, tmp_path: Path
) -> None:
    texts = [row["review"] for row in csv.DictReader((reviews / "test.csv").read_text().splitlines())]
    texts.insert(20, "some words that nobody knows here")
    (tmp_path / "texts.txt").write_text("\n".join([*texts, ""]))
    out = tmp_path / "chosen.csv"
    done = call("suggest", model, tmp_path / "texts.txt", "-n", 2, "-o", out)
    assert done.code == 0, done.err
    assert done.err.strip() == f"{out}: 2 of 41 texts"
    rows = list(csv.DictReader(out.read_text().splitlines()))
    probabilities = Predictor(model).predict_proba(texts)
    sure = abs(probabilities[:, 0] - probabilities[:, 1])
    assert (rows[0]["text"], rows[0]["margin"]) == (texts[sure.argmin()], f"{sure.min():.6f}".rstrip("0"))
    assert rows[1]["text"] != rows[0]["text"]


def test_json_and_files_with_columns(call: Call, model: Path, reviews: Path, tmp_path: Path) -> None:
    out = tmp_path / "chosen.jsonl"
    done = call("suggest", model, reviews / "test.csv", "-n", 3, "-o", out)
    assert done.code == 0, done.err
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert [set(row) for row in rows] == [{"text", "suggested", "margin"}] * 3
    done = call("suggest", model, reviews / "test.csv", "-n", 1000)
    assert done.out.startswith('text,suggested,margin\n"what a ')
    assert "only " in done.err


def test_mistakes(call: Call, model: Path, tagger: Path, reviews: Path, tmp_path: Path) -> None:
    done = call("suggest", tagger, tagger.parent / "slots.jsonl")
    assert (done.code, "without probabilities for texts; it cannot suggest any" in done.err) == (2, True)
    done = call("suggest", model, reviews / "test.csv", "-o", reviews / "test.csv")
    assert (done.code, "is also an input" in done.err) == (2, True)
    done = call("suggest", model, "-")
    assert (done.code, "suggest reads files" in done.err) == (2, True)
    done = call("suggest", model, reviews / "test.csv", "-o", tmp_path / "chosen.txt")
    assert (done.code, "ends neither in .jsonl nor in .csv" in done.err) == (2, True)
