"""`mixling drift` as a user runs it."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path

import pytest

from mixling import ConfigError, Predictor
from mixling.export.onnx import amend

from .conftest import Call


def test_texts_of_another_kind_are_found(call: Call, model: Path, reviews: Path, tmp_path: Path) -> None:
    out = tmp_path / "drift.json"
    rows = list(csv.DictReader((reviews / "test.csv").read_text().splitlines()))
    same = [re.sub(r"row (\d+)", r"row 9\1", row["review"]) for row in rows]  # their numbers are new, as validation's
    (tmp_path / "same.txt").write_text("\n".join([*same, ""]))
    done = call("drift", model, tmp_path / "same.txt", "-o", out)
    assert done.code == 0, done.err
    assert "nothing moved" in done.out
    assert json.loads(out.read_text())["reliable"] is True
    (tmp_path / "other.txt").write_text(
        "".join(f"quite another long sentence {i} of strange words\n" for i in range(50))
    )
    done = call("drift", model, tmp_path / "other.txt", "-o", out, "--check")
    assert done.code == 1
    assert "UNRELIABLE" in done.out
    assert "quite another" in done.out
    report = json.loads(out.read_text())
    assert "unknown words" in report["moved"]
    assert report["texts"] == 50
    assert len(report["examples"]) == 20


def test_every_task_has_a_profile(call: Call, tagger: Path) -> None:
    done = call("drift", tagger, tagger.parent / "slots.jsonl")
    assert done.code == 0, done.err
    assert "unknown words" in done.out
    assert "accuracy" not in done.out


def test_the_packaged_model_is_named_as_it_was_given(call: Call, tmp_path: Path) -> None:
    (tmp_path / "films.txt").write_text("a film of quiet charm, and a cast that shines\n" * 60)
    done = call("drift", "demo", tmp_path / "films.txt")
    assert done.code == 0, done.err
    assert "mixling evaluate demo LABELED" in " ".join(done.out.split())


def test_mistakes(call: Call, model: Path, reviews: Path, tmp_path: Path) -> None:
    done = call("drift", model, "-")
    assert (done.code, "drift reads files" in done.err) == (2, True)
    (tmp_path / "empty.txt").write_text("")
    done = call("drift", model, tmp_path / "empty.txt")
    assert done.code == 2
    assert "texts" in done.err
    done = call("drift", model, reviews / "test.csv", "-o", reviews / "test.csv")
    assert (done.code, "is also an input" in done.err) == (2, True)
    without = Predictor(amend(Predictor(model).content, profile=None))
    texts = [row["review"] for row in csv.DictReader((reviews / "test.csv").read_text().splitlines())]
    with pytest.raises(ConfigError, match="keeps no profile"):
        without.drift(texts)
    assert Predictor(model).drift(texts).texts == len(texts)
