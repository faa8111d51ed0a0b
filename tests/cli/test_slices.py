"""`mixling evaluate --by` as a user runs it, with the packaged model."""

from __future__ import annotations

import csv
import json
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import f1_score

from mixling import Predictor

from .conftest import Call


@pytest.fixture
def rows(call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    assert call("sample", "messages").code == 0
    return tmp_path / "messages_test.csv"


def test_values_are_those_of_the_rows(call: Call, rows: Path) -> None:
    done = call("evaluate", "demo", rows, "--by", "channel,language", "-o", "report.json")
    assert done.code == 0, done.err
    report = json.loads(Path("report.json").read_text())["slices"]
    with rows.open(encoding="utf-8", newline="") as file:
        table = list(csv.DictReader(file))
    answers = Predictor(str(files("mixling") / "samples" / "demo.onnx")).predict([row["message"] for row in table])
    given = np.array([answer.label for answer in answers])
    wanted = np.array([row["topic"] for row in table])
    right = given == wanted
    for name, part in report["columns"].items():
        assert {item["where"][name] for item in part} == {row[name] for row in table}
        for item in part:
            members = np.array([row[name] == item["where"][name] for row in table])
            assert item["rows"] == members.sum()
            assert item["value"] == pytest.approx(right[members].mean())
            assert item["interval"]["low"] <= item["value"] <= item["interval"]["high"]
            assert item["metric"] == pytest.approx(f1_score(wanted[members], given[members], average="macro"))
            assert item["metric_interval"]["low"] <= item["metric_interval"]["high"]
    assert report["worst"][0]["where"] == {"language": "not en"}
    assert report["worst"][0]["chance"] < 0.1
    assert "language not en" in done.out
    assert "by channel" in done.out
    assert report["beside"] == "macro_f1"
    assert "macro F1" in done.out.partition("by channel")[2]
    rates = [item for item in report["rates"] if item["where"] == {"channel": "chat"} and item["label"] == "refund"]
    chat = [row for row in table if row["channel"] == "chat"]
    assert rates[0]["expected"] == pytest.approx(np.mean([row["topic"] == "refund" for row in chat]))


def test_texts_are_predicted_once(call: Call, rows: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def again(*given: object, **options: object) -> None:
        raise AssertionError("predicted again")

    monkeypatch.setattr(Predictor, "predict_stream", again)
    monkeypatch.setattr(Predictor, "text_logits", again)
    done = call("evaluate", "demo", rows, "--by", "channel", "--errors", "errors.csv")
    assert done.code == 0, done.err
    assert "by channel" in done.out
    assert Path("errors.csv").read_text().startswith("path,line")


def test_auto_takes_columns_of_few_values_numbers_and_dates(call: Call, rows: Path) -> None:
    with rows.open(encoding="utf-8", newline="") as file:
        table = [{**row, "code": f"a{number}", "same": "x"} for number, row in enumerate(csv.DictReader(file))]
    Path("rows.jsonl").write_text("".join(json.dumps({**row, "list": [1]}) + "\n" for row in table[:-1]))
    done = call("evaluate", "demo", "rows.jsonl", "--by", "auto", "-o", "page.html")
    assert done.code == 0, done.err
    for name in ("by channel", "by language", "by order_value", "by date", "and words"):
        assert name in done.out
    for name, reason in (("code", "more than 20 values"), ("same", "one value"), ("list", "lists or objects")):
        assert f"no slices by {name}: it has {reason}" in done.out
    page = Path("page.html").read_text()
    assert page.startswith("<!doctype html>")
    assert "<caption" in page
    assert "by order_value" in page


@pytest.mark.parametrize(
    ("by", "words"),
    [
        ("chanel", "no column 'chanel'; did you mean 'channel'?"),
        ("message", "--by: message is the column of the texts"),
        (",", "--by: got ','; give names with commas between them"),
    ],
)
def test_columns_that_are_no_slices_are_refused(call: Call, rows: Path, by: str, words: str) -> None:
    done = call("evaluate", "demo", rows, "--by", by)
    assert done.code == 2
    assert words in done.err


def test_all_tasks_have_a_score_of_rows(call: Call, rows: Path, tmp_path: Path) -> None:
    models = Path(__file__).parents[1] / "serving" / "models"
    (tmp_path / "stars.csv").write_text(
        "text,label,side\n" + "".join(f"text {number},{number % 5},{'ab'[number % 2]}\n" for number in range(60))
    )
    done = call("evaluate", models / "stars.onnx", "stars.csv", "--by", "side")
    assert done.code == 0, done.err
    assert "mae" in done.out
    row = {"tokens": ["play", "it"], "slots": ["O", "O"]}
    (tmp_path / "slots.jsonl").write_text(
        "".join(json.dumps({**row, "side": "ab"[number % 2]}) + "\n" for number in range(60))
    )
    done = call("evaluate", models / "slots.onnx", "slots.jsonl", "--by", "side")
    assert done.code == 0, done.err
    assert "sentence accuracy" in done.out
