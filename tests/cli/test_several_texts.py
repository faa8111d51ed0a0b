"""The way of a user whose rows have a title, a body and a note, and a number beside them."""

from __future__ import annotations

import csv
import json
import random
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from mixling import DataError, Prediction, Predictor, TextClassifier
from mixling.serving.problems import Problem
from mixling.serving.schemas import request_type

from .conftest import Call

NAMES = ("title", "body", "the note")
WORDS = ["red", "blue", "green", "cat", "dog", "tree"]


@pytest.fixture(scope="module")
def folder(call: Call, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with rows.csv, whose label says whether the body has a cat, and the run `model` that learned it."""
    chance = random.Random(0)
    out = tmp_path_factory.mktemp("several")
    with (out / "rows.csv").open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow([*NAMES, "price", "label"])
        for number in range(160):
            texts = [" ".join(chance.choices(WORDS, k=3)) for _ in NAMES]
            rows.writerow([*texts, number, "cat" if "cat" in texts[1].split() else "none"])
    columns = [word for name in NAMES for word in ("--text", name)]
    options = ["--features", "price", "--epochs", 1, "--test-fraction", 0]
    done = call("train", out / "rows.csv", *columns, *options, "-o", out / "model")
    assert done.code == 0, done.err
    return out


def rows_of(folder: Path) -> list[dict[str, Any]]:
    with (folder / "rows.csv").open(newline="") as file:
        return [{name: row[name] for name in (*NAMES, "price")} for row in csv.DictReader(file)]


def answers(found: Iterable[Prediction]) -> list[tuple[str | None, list[float]]]:
    return [(one.label, [round(value, 6) for value in (one.probabilities or {}).values()]) for one in found]


def test_files_rows_tables_and_requests_are_read_by_name(call: Call, folder: Path) -> None:
    predictor = Predictor(folder / "model")
    assert predictor.text_names == NAMES
    rows = rows_of(folder)
    expected = answers(map(predictor.predict_one, rows))
    assert answers(predictor.predict(rows)) == expected
    assert answers(predictor.predict_stream(iter(rows))) == expected
    table = predictor.predict({name: [row[name] for row in rows] for name in ("price", *NAMES[::-1])})
    assert table["label"] == [label for label, _ in expected]
    lines = call("predict", folder / "model", folder / "rows.csv").out.splitlines()
    assert [json.loads(line)["label"] for line in lines] == table["label"]
    request = request_type(predictor, 1000, 1000)
    cells = [{"price": row.pop("price")} for row in rows]
    for pairs in (rows, [[row[name] for name in NAMES] for row in rows]):
        texts, _ = request.parse(json.dumps({"pairs": pairs, "columns": cells}).encode())
        assert answers(predictor.predict(texts)) == expected
    swapped = predictor.predict_one({"title": rows[0]["body"], "body": rows[0]["title"], "the note": "", "price": 3})
    assert answers([swapped])[0] != expected[0]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"body": None, "boddy": "a"}, "no column 'boddy'; did you mean 'body'?"),
        ({"body": None}, "no column 'body'; allowed: title, the note, price"),
        ({"body": 3}, "'body' is not a text: 3"),
    ],
)
def test_a_text_that_is_not_there_is_an_error_and_an_empty_one_is_not(
    call: Call, folder: Path, tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    predictor = Predictor(folder / "model")
    row = dict.fromkeys(NAMES, "") | {"price": None}
    assert predictor.predict_one(row).empty
    wrong = {name: value for name, value in (row | changes).items() if name == "price" or value is not None}
    with pytest.raises(DataError, match=message.replace("?", r"\?")):
        predictor.predict_one(wrong)
    body = {"pairs": [{name: wrong[name] for name in wrong if name != "price"}], "columns": [{"price": None}]}
    with pytest.raises(Problem, match="body"):
        request_type(predictor, 10, 10).parse(json.dumps(body).encode())
    (tmp_path / "a.csv").write_text("title,boddy,the note,price\na,b,c,1\n")
    done = call("predict", folder / "model", tmp_path / "a.csv")
    assert done.code == 2
    assert "no column 'body'; did you mean 'boddy'?" in done.err
    assert "choose a column with --text COLUMN" in done.err


def test_texts_that_belong_together_have_near_ones(call: Call, folder: Path, tmp_path: Path) -> None:
    assert call("encode", folder / "model", folder / "rows.csv", "-o", tmp_path / "index").code == 0
    row = [rows_of(folder)[7][name] for name in NAMES]
    done = call("similar", tmp_path / "index", *row, *row, "-n", 1, "--format", "jsonl")
    found = [json.loads(line) for line in done.out.splitlines()]
    assert [(one["text"], one["nearest"][0]["text"]) for one in found] == [(row, row)] * 2
    done = call("similar", tmp_path / "index", "red")
    assert done.code == 2
    assert "got 1 texts; the model reads several that belong together" in done.err


@pytest.mark.slow  # starts workers
def test_two_workers_answer_rows_of_texts_and_columns(call: Call, folder: Path, tmp_path: Path) -> None:
    written = []
    for workers in (1, 2):
        out = f"{tmp_path / str(workers)}/"
        done = call("predict", folder / "model", folder / "rows.csv", "-o", out, "--workers", workers)
        assert done.code == 0, done.err
        written.append({path.name: path.read_bytes() for path in Path(out).iterdir()})
    assert written[0] == written[1]
    again = call("predict", folder / "model", folder / "rows.csv", "-o", out, "--workers", 2, "--resume")
    assert "from before" in again.err


MISTAKES = [
    (["--text", "title", "--text", "title"], "--text: got the column 'title' twice; name each once"),
    (["--text", "a", "--text", "b", "--text-pair", "c"], "--text-pair: got 'c' beside 2 columns of --text"),
    ([word for name in "abcdefghi" for word in ("--text", name)], "--text: got 9 columns; allowed: up to 8"),
    (["--text", "title", "--text", "boddy", "--label", "label"], "no column 'boddy'; did you mean 'body'?"),
]


@pytest.mark.parametrize(("options", "message"), MISTAKES)
def test_mistakes_are_named(call: Call, folder: Path, tmp_path: Path, options: list[str], message: str) -> None:
    done = call("train", folder / "rows.csv", *options, "-o", tmp_path / "model")
    assert done.code == 2
    assert message in done.err
    assert not (tmp_path / "model").exists()


def test_an_estimator_remembers_the_columns(folder: Path) -> None:
    rows = [row | {"label": "cat" if "cat" in row["body"].split() else "none"} for row in rows_of(folder)]
    model = TextClassifier(epochs=1).fit(rows, text=NAMES, label="label")
    tuples = [tuple(row[name] for name in NAMES) for row in rows]
    assert model.predict(rows).tolist() == model.predict(tuples).tolist()
    assert model.predictor_.text_names == NAMES
    with pytest.raises(DataError, match="got a pair of texts, but the first example is 3 texts"):
        TextClassifier(epochs=1).fit([*tuples, ("a", "b")], ["x"] * len(tuples) + ["y"])
