"""Models with columns beside the text: training, both engines, files, errors, explanations."""

from __future__ import annotations

import csv
import json
import random
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mixling.errors import DataError
from mixling.runtime.predictor import Predictor

pytestmark = pytest.mark.slow
NAMES = ("text", "price", "sent by", "date", "label")


def _rows(number: int, seed: int) -> list[dict[str, str]]:
    """Return rows whose label is told half by the text and half by price (not a line) and channel."""
    rng = random.Random(seed)
    rows = []
    for _ in range(number):
        word, price, channel = rng.choice(["refund", "invoice"]), rng.uniform(0, 100), rng.choice(["mail", "chat"])
        filler = rng.sample(["where", "is", "my", "please", "today", "it", "was", "the", "one"], 4)
        side = "high" if abs(price - 50) > 25 or (channel == "chat" and price > 90) else "low"
        date = f"2024-{rng.randint(1, 12):02}-{rng.randint(1, 28):02}"
        shown = rng.choice([f"{price:.2f}", f"${price:.2f}"])
        rows.append(
            dict(zip(NAMES, (f"{' '.join(filler)} {word}", shown, channel, date, f"{word}-{side}"), strict=True))
        )
    return rows


def _mixling(folder: Path, *arguments: str, fails: bool = False) -> str:
    done = subprocess.run([sys.executable, "-m", "mixling", *arguments], cwd=folder, capture_output=True, text=True)
    assert (done.returncode != 0) == fails, done.stderr + done.stdout
    return done.stdout + done.stderr


def _write(path: Path, rows: list[dict[str, str]]) -> None:
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("columns")
    _write(folder / "train.csv", _rows(500, 0))
    _write(folder / "test.csv", _rows(200, 1))
    features = "price,sent by,date:date"
    out = _mixling(
        folder, "train", "train.csv", "--text", "text", "--features", features, "--epochs", "4", "-o", "model"
    )
    assert "columns: price (number, " in out
    assert "sent by (category, 2 values and other); date (date, 2024-01-" in out
    return folder


@pytest.fixture
def items() -> list[dict[str, Any]]:
    return [{name: row[name] for name in NAMES[:-1]} for row in _rows(60, 2)]


def test_columns_tell_half_of_the_label(folder: Path) -> None:
    _mixling(folder, "evaluate", "model", "test.csv", "-o", "out.json")
    assert json.loads((folder / "out.json").read_text())["accuracy"] > 0.9  # of the text alone .5


def test_the_card_and_show_name_the_columns(folder: Path) -> None:
    shown = " ".join(_mixling(folder, "show", "model").split())
    assert re.search(r" columns +price \(number, .*\); sent by \(category, 2 values and other\)", shown)
    card = (folder / "model/README.md").read_text()
    assert "mixling predict . rows.csv" in card
    assert 'predictor.predict({"text": "a text", "price": "...", "sent by": "...", "date": "..."})' in card


def test_both_engines_and_windows_agree(folder: Path, items: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    native = Predictor(folder / "model")
    assert native.features == ("price:number", "sent by:category", "date:date")
    monkeypatch.setenv("MIXLING_ENGINE", "onnx")
    onnx = Predictor(folder / "model")
    assert native.engine.startswith("native")
    assert onnx.engine.startswith("onnx")
    items += [{**items[0], "price": None}, {**items[0], "price": float("inf"), "sent by": "never seen", "date": "NA"}]
    items += [{**items[0], "text": items[0]["text"] * 300}]
    np.testing.assert_allclose(native.text_logits(items), onnx.text_logits(items), atol=0.05)
    one = [native.predict(item).label for item in items]
    assert one == [item.label for item in native.predict(items)] == [item.label for item in onnx.predict(items)]


def test_the_core_reads_a_row(folder: Path, items: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    predictor = Predictor(folder / "model")
    known, missing, far = (35, 35.0, "35", "$35.00"), (None, float("nan"), "", "n/a"), (1e15, 10**15, "1e15")
    groups = [[{**items[0], "price": price} for price in prices] for prices in (known, missing, far)]
    in_python = [predictor.predict_one({**rows[0], "price": np.array(rows[0]["price"], float)[()]}) for rows in groups]
    assert len({str(one) for one in in_python}) == len(groups)
    monkeypatch.setattr(predictor._inference.inputs, "row", None)
    for rows, expected in zip(groups, in_python, strict=True):
        assert [predictor.predict_one(row) for row in rows] == [expected] * len(rows) == predictor.predict(rows)
    assert predictor.predict_one({**items[0], "sent by": 5}) == predictor.predict_one({**items[0], "sent by": "new"})


@pytest.mark.parametrize("engine", ["native", "onnx"])
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"price": ...}, "no column 'price'; "),
        ({"prise": 1}, "the model has no column 'prise'; did you mean 'price'"),
        ({"price": "many"}, "column 'price' is not a number: 'many'; leave it empty where it is missing"),
        ({"date": "soon"}, "column 'date' is not a date: 'soon'"),
        ({"text": None}, "'text' is not a text: None"),
    ],
)
def test_bad_columns_are_named(
    folder: Path, items: Any, change: Any, message: str, engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MIXLING_ENGINE", engine)
    row = {name: value for name, value in {**items[0], **change}.items() if value is not ...}
    predictor = Predictor(folder / "model")
    with pytest.raises(DataError, match=message):
        predictor.predict_one(row)
    if "prise" not in row and row["text"] is not None:  # other columns of a table are of no interest
        with pytest.raises(DataError, match=message):
            predictor.predict([row])
    with pytest.raises(DataError, match="item 0 has no columns; this model reads price, sent by, date beside the text"):
        predictor.predict("a text")


def test_predictions_of_files_and_of_texts(folder: Path) -> None:
    _mixling(folder, "predict", "model", "test.csv", "-o", "out.csv")
    labels = [row["label"] for row in csv.DictReader((folder / "out.csv").read_text().splitlines())]
    rows = list(csv.DictReader((folder / "test.csv").read_text().splitlines()))
    assert np.mean([row["label"] == label for row, label in zip(rows, labels, strict=True)]) > 0.9
    (folder / "test.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    _mixling(folder, "predict", "model", "test.jsonl", "-o", "bulk/")
    paths = sorted((folder / "bulk").glob("*.jsonl"))
    bulk = [json.loads(line) for path in paths for line in path.read_text().splitlines()]
    assert [row["prediction"]["label"] for row in bulk] == labels
    given = ("--column", "price=$95", "--column", "sent by=mail", "--column", "date=")
    assert json.loads(_mixling(folder, "predict", "model", "my refund", *given))["label"] == "refund-high"
    out = _mixling(folder, "predict", "model", "my refund", "--column", "prize=3", fails=True)
    assert "--column: the model has no column 'prize'; did you mean 'price'" in out
    out = _mixling(folder, "predict", "model", "my refund", "--column", "price=3", fails=True)
    assert "--column: no column 'sent by'" in out
    (folder / "less.csv").write_text("text,prise,sent by,date\nmy refund,3,mail,\n")
    out = _mixling(folder, "predict", "model", "less.csv", fails=True)
    assert "less.csv: no column 'price'; did you mean 'prise'" in out
    (folder / "bad.csv").write_text("text,price,sent by,date\nmy refund,3,mail,\nmy refund,many,mail,\n")
    out = _mixling(folder, "predict", "model", "bad.csv", fails=True)
    assert "bad.csv:3: column 'price' is not a number: 'many'" in out


def test_effects_of_columns_and_words_make_up_the_score(folder: Path, items: Any) -> None:
    explanation = Predictor(folder / "model").explain({**items[0], "price": "5"})
    effects = [item.effect for item in (*explanation.words, *explanation.columns)]
    assert sum(effects) == pytest.approx(explanation.score - explanation.base, abs=1e-6)
    assert [(item.name, item.value) for item in explanation.columns[:1]] == [("price", "5")]
    assert max(explanation.columns, key=lambda item: item.effect).name == "price"


def test_other_tasks_refuse_columns(folder: Path) -> None:
    (folder / "tags.jsonl").write_text('{"tokens": ["a", "b"], "slots": ["O", "B-x"], "price": 1}\n' * 20)
    out = _mixling(folder, "train", "tags.jsonl", "--features", "price", "-o", "tags", fails=True)
    assert "--features: columns beside the text are for tasks with labels, or a number, of texts" in out


def test_tables_have_the_columns_by_name(folder: Path, items: Any) -> None:
    pandas = pytest.importorskip("pandas")
    predictor = Predictor(folder / "model")
    labels = [item.label for item in predictor.predict(items)]
    frame = pandas.DataFrame(items).rename(columns={"text": "message"})
    assert predictor.predict(frame)["label"].tolist() == labels
    assert [item.label for item in predictor.predict_stream(dict(item) for item in items)] == labels
    with pytest.raises(DataError, match="no column 'price'"):
        predictor.predict(frame.drop(columns="price"))


def test_a_command_line_without_columns_is_told_which(folder: Path) -> None:
    out = _mixling(folder, "predict", "model", "my refund", fails=True)
    assert 'this model reads columns beside the text: add --column price=VALUE --column "sent by=VALUE"' in out


def test_more_rows_with_other_columns(folder: Path) -> None:
    """Rows of the run before have no value of a column that it did not read."""
    _write(folder / "more.csv", [{**row, "weight": row["price"]} for row in _rows(120, 3)])
    how = ("--text", "text", "--features", "weight,price", "--from", "model", "--epochs", "1", "-o", "longer")
    assert "model did not read weight: no value of a replayed example" in _mixling(folder, "train", "more.csv", *how)
    assert Predictor(folder / "longer").features == ("weight:number", "price:number")


def test_a_student_learns_from_fragments_with_their_columns(folder: Path) -> None:
    how = ("--label", "label", "--features", "price,sent by,date:date", "--epochs", "1", "-o", "student")
    out = _mixling(folder, "distill", "--teacher", "model", "train.csv", "--test", "test.csv", *how)
    assert "fragments of labeled texts" in out
    assert Predictor(folder / "student").feature_names == ("price", "sent by", "date")


def test_an_audit_reads_columns(folder: Path) -> None:
    (folder / "some.csv").write_text("\n".join((folder / "train.csv").read_text().splitlines()[:241]) + "\n")
    how = ("--folds", "2", "--epochs", "1", "-o", "audit")
    beside = _mixling(folder, "audit", "some.csv", "--features", "price,sent by,date", *how)
    alone = _mixling(folder, "audit", "some.csv", *how)
    found = [float(re.findall(r"mixling (0\.\d+), TF-IDF(?:, columns)? and", out)[0]) for out in (beside, alone)]
    assert found[0] > found[1] + 0.1
    assert "TF-IDF and logistic regression, with columns" in beside
