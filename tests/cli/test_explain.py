"""`mixling explain` as a user runs it."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from .conftest import Call


def test_texts_get_readable_explanations_without_colors_in_a_pipe(call: Call, model: Path) -> None:
    done = call("explain", model, "what a great film", "what an awful plot")
    assert done.code == 0, done.err
    first, second = done.out.split("\n\n")
    assert first.startswith("good  ")
    assert second.startswith("bad  ")
    assert first.splitlines()[1] == "what a great film"
    assert first.splitlines()[2].split()[1] == "great"
    assert second.splitlines()[2].split()[1] == "awful"
    assert "\x1b" not in done.out


def test_a_terminal_gets_colors_unless_they_are_unwanted(
    call: Call, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    done = call("explain", model, "what a great \x1b[2J film", terminal=True)
    assert "mgreat\x1b[0m" in done.out
    assert "\x1b[2J" not in done.out
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in call("explain", model, "what a great film", terminal=True).out


def test_json_of_a_files_rows_for_a_chosen_label(call: Call, model: Path, reviews: Path, tmp_path: Path) -> None:
    out = tmp_path / "why.jsonl"
    done = call("explain", model, reviews / "test.csv", "--target", "bad", "--method", "leave_one_out", "-o", out)
    assert done.code == 0, done.err
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert len(rows) == 40
    for row in rows:
        assert (row["target"], row["method"]) == ("bad", "leave_one_out")
        assert all(row["text"][word["start"] : word["end"]] == word["word"] for word in row["words"])


def test_a_page(call: Call, model: Path, tmp_path: Path) -> None:
    done = call("explain", model, "-", "-o", tmp_path / "why.html", stdin=b"what a <great> film\n")
    assert done.code == 0, done.err
    page = (tmp_path / "why.html").read_text()
    assert page.startswith("<!doctype html>")
    assert "&lt;" in page
    assert "<great>" not in page


def test_a_tagger_explains_one_word(call: Call, tagger: Path) -> None:
    done = call("explain", tagger, "fly to oslo on sunday no7", "--word", 4, "--format", "json")
    assert done.code == 0, done.err
    row = json.loads(done.out)
    assert (row["target"], row["word"], row["words"][4]["effect"]) == ("B-day", 4, 0.0)
    assert call("explain", tagger, "fly to oslo on sunday no7").out.startswith("oslo: B-city")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["a film", "--target", "goood"], "the model has no label 'goood'; did you mean 'good'?"),
        (["a film", "--method", "lime"], "method: got 'lime'; allowed: auto, leave_one_out, shapley"),
        (["a film", "--format", "pdf"], "--format: got 'pdf'; allowed: text, json, html"),
        (["a film", "-o", "why.pdf"], "why.pdf: ends in none of .html, .json, .jsonl, .txt; choose with --format"),
        (["a film", "--word", "1"], "word is for models that tag words"),
    ],
)
def test_mistakes(call: Call, model: Path, arguments: list[str], message: str) -> None:
    done = call("explain", model, *arguments)
    assert done.code == 2
    assert message in done.err
    assert "Traceback" not in done.err


def test_evaluate_lists_mistakes_with_the_words_that_explain_them(
    call: Call, model: Path, reviews: Path, tmp_path: Path
) -> None:
    rows = (reviews / "test.csv").read_text().splitlines()
    (tmp_path / "test.csv").write_text(
        "\n".join([*rows, "40,what a great film,bad", "41,what a dull plot,good"]) + "\n"
    )
    done = call("evaluate", model, tmp_path / "test.csv", "--errors", tmp_path / "errors.csv")
    assert done.code == 0, done.err
    errors = list(csv.DictReader((tmp_path / "errors.csv").read_text().splitlines()))
    assert {row["text"]: (row["target"], row["predicted"], row["line"]) for row in errors[:2]} == {
        "what a great film": ("bad", "good", "42"), "what a dull plot": ("good", "bad", "43"),
    }  # fmt: skip
    assert errors[0]["words"].split()[0] in ("great", "dull")
    out = tmp_path / "errors.jsonl"
    assert call("evaluate", model, tmp_path / "test.csv", "--errors", out, "-o", tmp_path / "all.json").code == 0
    assert [json.loads(line)["text"] for line in out.read_text().splitlines()] == [row["text"] for row in errors]
    done = call("evaluate", model, tmp_path / "test.csv", "--errors", tmp_path / "errors.txt")
    assert (done.code, "ends neither in .csv nor in .jsonl" in done.err) == (2, True)
