"""`--label-levels`: every way to predict answers alike, and a mistake names its line."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from mixling import Predictor
from mixling.artifacts import read_metrics
from mixling.serving.answers import read_predictions
from mixling.serving.predicting import answer
from mixling.serving.schemas import Options
from mixling.tasks import Classification

from .test_metric import QUICK, answers_everywhere

Call = Any

WORDS = {
    "animal > cat": "purr paw whiskers",
    "animal > dog": "bark paw leash",
    "plant > tree": "leaf trunk root",
    "plant > moss": "leaf damp root",
    "stone": "grey hard quarry",
}


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("levels") / "rows.csv"
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["text", "label"])
        for index in range(500):
            label = [*WORDS][index % 5]
            words = WORDS[label].split()
            # A third of the texts have the word of their top alone: nobody can tell the leaf.
            writer.writerow([f"{words[1 if index % 3 == 0 else index % 2 * 2]} thing {index % 7}", label])
    return path


@pytest.fixture(scope="module")
def model(call: Call, rows: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("levels") / "m"
    done = call("train", rows, "-o", folder, *QUICK, "--label-levels", " > ", "--abstain-at", "0.9")
    assert done.code == 0, done.err
    assert "level 1: 3 labels, accuracy" in done.out
    assert "level 2: 5 labels, accuracy" in done.out
    return folder


def test_an_uncertain_answer_goes_up_the_tree_in_every_engine(
    call: Call, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    report = read_metrics(model)
    assert report["rule"] == {"offsets": [], "costs": [], "levels": " > "}
    assert len(report["validation"]["levels"]) == 2
    texts = [f"{word} thing {number}" for words in WORDS.values() for word in words.split() for number in range(4)]
    found = answers_everywhere(call, model, texts, tmp_path)
    assert {"animal", "plant", "stone", "animal > cat"} <= set(found)
    predictor = Predictor(model)
    first = predictor.predict(texts)
    for one in first:
        assert one.path is not None
        assert one.probabilities is not None
        for part, probability in one.path.items():
            below = [p for name, p in one.probabilities.items() if name == part or name.startswith(f"{part} > ")]
            assert probability == pytest.approx(sum(below))
    pq = pytest.importorskip("pyarrow.parquet")
    (tmp_path / "texts.csv").write_text("text\n" + "\n".join(texts) + "\n")
    done = call("predict", model, tmp_path / "texts.csv", "--format", "parquet", "-o", f"{tmp_path}/out/")
    assert done.code == 0, done.err
    table = pq.read_table(next((tmp_path / "out").rglob("*.parquet"))).to_pydict()
    assert table["prediction_label"] == found
    assert [dict(path) for path in table["prediction_path"]] == [item.path for item in first]
    for threshold in (0.0, 0.7, 1.0):
        served = [answer(item, Options(threshold=threshold)) for item in first]
        again = Predictor(model, threshold=threshold).predict(texts)
        assert [(one["label"], one["abstained"]) for one in served] == [(one.label, one.abstained) for one in again]
        values = {"predictions": [{**one, "probabilities": dict(one["probabilities"])} for one in served]}
        read = read_predictions(values, texts, model="m", task=Classification)
        assert [(one.label, one.path) for one in read] == [(one.label, one.path) for one in again]
    assert predictor.columns(texts)["label"] == [item.label for item in first]
    monkeypatch.setenv("MIXLING_ENGINE", "onnx")
    assert answers_everywhere(call, model, texts, tmp_path) == found
    assert [item.label for item in Predictor(model, threshold=0.0).predict(texts)] == [item.leaf for item in first]


def test_evaluate_has_each_level(call: Call, model: Path, rows: Path, tmp_path: Path) -> None:
    done = call("evaluate", model, rows, "-o", tmp_path / "metrics.json", "--errors", tmp_path / "errors.csv")
    assert done.code == 0, done.err
    assert "level 1: 3 labels" in done.out
    top, whole = json.loads((tmp_path / "metrics.json").read_text())["levels"]
    assert top["accuracy"] >= whole["accuracy"]
    assert top["coverage"] > whole["coverage"]


@pytest.mark.parametrize(
    ("options", "text", "problem"),
    [
        (("--label-levels", " / "), "", "rows.csv:2: label 'animal > cat': no label has ' / ' in it"),
        (("--label-levels", " > "), "x,animal\n", "rows.csv:502: label 'animal': it is above another label"),
        (("--label-levels", " > "), "x,animal > \n", "rows.csv:502: label 'animal >': "),
        (("--label-levels", ">"), "", "rows.csv:2: label 'animal > cat': there are blanks around '>'"),
        (("--label-levels", ""), "", "decisions.label_levels"),
        (("--label-levels", " > ", "--task", "multi_label"), "", "decisions.label_levels: multi_label has no single"),
        (("--label-levels", " > ", "--costs", "costs.csv"), "", "both choose the answer; leave one out"),
    ],
)
def test_mistakes_name_their_line(
    call: Call, rows: Path, tmp_path: Path, options: tuple[str, ...], text: str, problem: str
) -> None:
    (tmp_path / "rows.csv").write_text(rows.read_text() + text * 12)
    done = call("train", tmp_path / "rows.csv", "-o", tmp_path / "m", *QUICK, "--validation", rows, *options)
    assert done.code == 2
    assert problem in done.err
