"""`--metric` and `--costs`: what a model is made for, and that every way to predict answers alike."""

from __future__ import annotations

import csv
import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mixling import Predictor
from mixling.artifacts import read_metrics

Call = Any

LABELS = ("common", "rare", "odd")
WORDS = {"common": "the a of", "rare": "lunar moon tide", "odd": "prime seven odd"}


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Rows of which one in twelve is rare, with words that labels share: an answer is never certain."""
    draw = random.Random(0)
    path = tmp_path_factory.mktemp("metric") / "rows.csv"
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["text", "label"])
        for index in range(480):
            label = "rare" if index % 12 == 0 else "odd" if index % 6 == 1 else "common"
            words = WORDS[label].split() + WORDS["common"].split() + ["with", "some", "words"]
            chosen = draw.choices(words, k=6) + draw.choices(WORDS[draw.choice(LABELS)].split(), k=2)
            writer.writerow([" ".join(chosen), label])
    return path


QUICK = ("--model", "mixling-tiny", "--epochs", "6", "--set", "ngrams.use=never")


def texts_of(path: Path) -> list[str]:
    return [row["text"] for row in csv.DictReader(path.read_text().splitlines())][:60]


def answers_everywhere(call: Call, model: Path, texts: list[str], tmp_path: Path) -> list[str]:
    """The answers of one model, which all ways to predict must agree on."""
    predictor = Predictor(model)
    many = [found.label for found in predictor.predict(texts)]
    assert [predictor.predict(text).label for text in texts] == many
    assert [json.loads(line)["label"] for line in predictor.json_lines(texts)] == many
    (tmp_path / "texts.txt").write_text("\n".join(texts) + "\n")
    for name, key in (("jsonl", None), ("csv", "label")):
        done = call("predict", model, tmp_path / "texts.txt", "--format", name)
        assert done.code == 0, done.err
        lines = done.out.splitlines()
        found = (
            [json.loads(line)["label"] for line in lines]
            if key is None
            else [row[key] for row in csv.DictReader(lines)]
        )
        assert found == many
    return [str(label) for label in many]


def test_a_model_for_macro_f1_answers_with_rarer_labels(call: Call, rows: Path, tmp_path: Path) -> None:
    for name, options in (("accuracy", ()), ("macro", ("--metric", "macro-f1"))):
        done = call("train", rows, "-o", tmp_path / name, *QUICK, *options)
        assert done.code == 0, done.err
    assert "log(frequency of the label); on unseen examples: macro F1" in done.err
    plain, made = (read_metrics(tmp_path / name) for name in ("accuracy", "macro"))
    assert plain["rule"] is None
    assert len(made["rule"]["offsets"]) == 3
    assert made["validation"]["macro_f1"] >= plain["validation"]["macro_f1"]
    texts = texts_of(rows)
    usual, others = (answers_everywhere(call, tmp_path / name, texts, tmp_path) for name in ("accuracy", "macro"))
    assert others.count("common") < usual.count("common")
    # Probabilities stay as they are: the answer need not be the most probable label.
    predictor = Predictor(tmp_path / "macro")
    best = predictor.predict_proba(texts).argmax(1)
    assert [predictor.labels.names[index] for index in best] != others
    done = call("evaluate", tmp_path / "macro", rows, "-o", tmp_path / "metrics.json")
    assert done.code == 0
    assert json.loads((tmp_path / "metrics.json").read_text())["macro_f1"] > 0


def test_costs_decide_and_are_the_metric(call: Call, rows: Path, tmp_path: Path) -> None:
    costs = tmp_path / "costs.csv"
    costs.write_text("label,common,rare,odd\ncommon,0,1,1\nrare,50,0,50\nodd,1,1,0\n")
    done = call("train", rows, "-o", tmp_path / "m", *QUICK, "--costs", costs)
    assert done.code == 0, done.err
    report = read_metrics(tmp_path / "m")
    order = Predictor(tmp_path / "m").labels.names
    table = {"common": (0, 1, 1), "rare": (50, 0, 50), "odd": (1, 1, 0)}
    assert report["rule"]["costs"] == [[table[a][LABELS.index(b)] for b in order] for a in order]
    confusion = np.array(report["validation"]["confusion"])
    expected = (confusion * np.array(report["rule"]["costs"])).sum() / confusion.sum()
    assert report["validation"]["mean_cost"] == pytest.approx(expected)
    texts = texts_of(rows)
    assert answers_everywhere(call, tmp_path / "m", texts, tmp_path).count("rare") > 5


def test_one_label_is_named(call: Call, rows: Path, tmp_path: Path) -> None:
    done = call("train", rows, "-o", tmp_path / "m", *QUICK, "--metric", "f1:rare")
    assert done.code == 0, done.err
    report = read_metrics(tmp_path / "m")
    of_rare = next(row["f1"] for row in report["validation"]["per_class"] if row["label"] == "rare")
    assert report["validation"]["label_f1"] == pytest.approx(of_rare)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (("--metric", "nothing"), "accuracy, macro-f1, balanced-accuracy, mcc, f1:LABEL"),
        (("--metric", "f1:nobody"), "no label 'nobody'"),
        (("--metric", "f1:"), "f1:LABEL"),
        (("--metric", "cost"), "decisions.costs"),
        (("--metric", "macro-f1", "--costs", "costs.csv"), "leave decisions.metric out"),
        (("--metric", "macro-f1", "--task", "regression"), "mse, rmse, mae, pearson, spearman"),
        (("--costs", "missing.csv"), "missing.csv"),
        (("--costs", "short.csv"), "has no cost of 'odd'"),
        (("--costs", "words.csv"), "column 'rare': got 'x'"),
    ],
)
def test_mistakes_are_named(
    call: Call, rows: Path, tmp_path: Path, options: tuple[str, ...], problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("costs.csv").write_text("label,common,rare,odd\ncommon,0,1,1\nrare,1,0,1\nodd,1,1,0\n")
    Path("short.csv").write_text("label,common,rare\ncommon,0,1\nrare,1,0\n")
    Path("words.csv").write_text("label,common,rare,odd\ncommon,0,x,1\nrare,1,0,1\nodd,1,1,0\n")
    done = call("train", rows, "-o", "m", *QUICK, *options)
    assert done.code == 2
    assert problem in done.err
    assert "Traceback" not in done.err


@pytest.mark.parametrize("aim", ["metric", "costs"])
def test_a_comparison_is_made_for_the_metric(call: Call, rows: Path, tmp_path: Path, aim: str) -> None:
    costs = tmp_path / "costs.csv"
    costs.write_text("label,common,rare,odd\ncommon,0,1,1\nrare,9,0,9\nodd,1,1,0\n")
    aimed = ("--metric", "macro-f1") if aim == "metric" else ("--set", f"decisions.costs={costs}")
    done = call("compare", rows, *aimed, "--systems", "majority", "--set", "train.epochs=2", "-o", tmp_path / "c")
    assert done.code == 0, done.err
    assert ("macro F1" in done.out.splitlines()[0]) is (aim == "metric")
    assert "always the most frequent label" in done.out or "majority" in done.out


@pytest.mark.parametrize("aim", ["pearson", "spearman"])
def test_a_correlation_of_equal_predictions_is_no_traceback(call: Call, tmp_path: Path, aim: str) -> None:
    rows, others = tmp_path / "rows.csv", tmp_path / "others.csv"
    rows.write_text("text,label\n" + "".join(f"word{i % 7} and more,{i % 5 + 0.5}\n" for i in range(60)))
    others.write_text("text,label\n" + "".join(f"the same text,{i % 5 + 0.5}\n" for i in range(20)))
    done = call(
        "train", rows, "--task", "regression", "--validation", others, "--metric", aim, "--epochs", "2", "-o",
        tmp_path / "m",
    )  # fmt: skip
    assert done.code == 0, done.err
    assert json.loads((tmp_path / "m" / "metrics.jsonl").read_text().splitlines()[0])[f"val_{aim}"] == 0
