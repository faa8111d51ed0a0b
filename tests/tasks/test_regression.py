"""Regression from a file of rows to the comparison with ridge regression, and its metrics against SciPy's."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats
from sklearn.base import clone
from sklearn.metrics import mean_absolute_error, mean_squared_error, r2_score
from sklearn.model_selection import cross_val_score

from mixling import (
    ConfigError,
    DataError,
    Dataset,
    Example,
    ModelFileError,
    Predictor,
    TextClassifier,
    TextRegressor,
    read_examples,
)
from mixling.answers import LabelSet
from mixling.data import ColumnsConfig, OnBadRow
from mixling.data.in_memory import checked_weights, numbered_rows
from mixling.tasks import LossConfig, Regression, infer_task
from mixling.tasks.regression import NumberReader, regression_report
from mixling.text import Encoded

TASK = Regression(LabelSet(("value",), "number", {"mean": 10.0, "deviation": 4.0}))
TINY = {
    "model": {"dim": 8, "num_layers": 1, "text": {"max_len": 8, "projection": {"num_features": 64, "num_hashes": 8}}},
    "train": {
        "batch_size": 8,
        "token_dropout": 0,
        "augmentation": {"pseudo_words": 0, "typos": 0},
        "device": "cpu",
    },
}
WORDS = {"awful": -7.25, "poor": -3.5, "fair": 0.125, "fine": 2.5, "great": 8.75}
Mixling = Callable[..., tuple[int, str, str]]


def rows(count: int, seed: int = 0) -> tuple[list[str], list[float]]:
    """Texts whose number is the sum of two words' numbers, and a little noise."""
    chance = np.random.default_rng(seed)
    drawn = [chance.choice(list(WORDS), 2).tolist() for _ in range(count)]
    numbers = [100 + WORDS[a] + WORDS[b] + round(float(chance.normal(0, 0.1)), 2) for a, b in drawn]
    return [f"a {a} film with {b} music" for a, b in drawn], numbers


@pytest.fixture
def mixling(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Mixling:
    from mixling.cli import run

    def call(*args: object) -> tuple[int, str, str]:
        monkeypatch.setattr("sys.argv", ["mixling", *map(str, args)])
        with pytest.raises(SystemExit) as end:
            run()
        return int(end.value.code or 0), *capsys.readouterr()

    return call


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with train.csv and test.csv, and in model/ a model that was trained on train.csv."""
    folder = tmp_path_factory.mktemp("numbers")
    for name, texts, numbers in (("train", *rows(160)), ("test", *rows(40, seed=1))):
        with (folder / f"{name}.csv").open("w", newline="") as file:
            csv.writer(file).writerows([("text", "label"), *zip(texts, numbers, strict=True)])
    TextRegressor(epochs=10, lr=0.02, config=TINY).fit(*rows(160)).save(folder / "model")
    return folder


# Rows and labels


def read(folder: Path, *values: Any) -> list[Any]:
    path = folder / "a.jsonl"
    path.write_text("".join(json.dumps({"text": "t", "label": value}) + "\n" for value in values))
    return [
        example.target
        for example in read_examples([path], reader=NumberReader, columns=ColumnsConfig(), on_bad_row=OnBadRow())
    ]


def test_numbers_and_strings_that_spell_them_are_read(tmp_path: Path) -> None:
    found = read(tmp_path, 3, -2.5, "4", " +.5 ", "1e-3", "7.")
    assert found == [3, -2.5, 4, 0.5, 0.001, 7]
    assert {type(number) for number in found} == {float}


@pytest.mark.parametrize(
    "value", [None, "", "x", "2,5", "1_000", "nan", "inf", True, [1.0], {"a": 1}, "1e999", 10**400]
)
def test_what_is_no_finite_number_is_refused_with_its_line(tmp_path: Path, value: Any) -> None:
    with pytest.raises(DataError, match=r"a\.jsonl:2: column 'label' is .*; a finite number with a decimal point"):
        read(tmp_path, 1.5, value)


@pytest.mark.parametrize(
    ("numbers", "task"),
    [
        ([i / 4 for i in range(40)], "regression"),
        ([str(i / 4) for i in range(40)], "regression"),
        (list(range(40)), "classification"),  # may be years
        ([i % 9 / 2 for i in range(40)], "classification"),  # ratings
        ([*(i / 4 for i in range(40)), "other"], "classification"),
        ([f"{i % 43 / 10:.1f}" for i in range(500)], "regression"),  # a scale, each value many times
        ([f"{i / 8:.3f}" for i in range(40)], "regression"),  # fixed decimals
        ([f"{i * i / 100:.2f}" for i in range(60)] * 2, "regression"),  # scattered, but rare
        ([f"{i:03d}.5" for i in range(40)], "classification"),  # leading zeros
        ([f"{i:05d}" for i in range(700, 760)], "classification"),
        ([f"1.{i}" for i in range(1, 31)] * 3, "classification"),  # versions: 1.1 is not 1.10
        ([f"{137 * i % 900 + i % 7 / 10}" for i in range(1, 31)] * 8, "classification"),  # of a catalogue
    ],
)
def test_many_numbers_with_fractions_are_recognized(tmp_path: Path, numbers: list[Any], task: str) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text("".join(json.dumps({"text": "t", "label": number}) + "\n" for number in numbers))
    assert infer_task({"train": [str(path)]})[0] == task


@pytest.mark.parametrize(
    ("numbers", "why"),
    [
        (["007", "7"] * 9, "leading zeros, such as 007, are codes"),
        ([f"1.{i}" for i in range(1, 31)] * 3, "numbers such as 1.10 beside 1.1 are codes"),
        (list(range(40)), "whole numbers may be classes"),
        ([i % 9 / 2 for i in range(40)], "only 9 different numbers"),
        ([f"{137 * i % 900 + i % 7 / 10}" for i in range(1, 31)] * 8, "30 different numbers that repeat"),
        ([i / 4 for i in range(40)], "40 different numbers with fractions"),
    ],
)
def test_the_reason_for_the_task_is_given(tmp_path: Path, numbers: list[Any], why: str) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text("".join(json.dumps({"text": "t", "label": number}) + "\n" for number in numbers))
    assert why in infer_task({"train": [str(path)]})[1]


def test_the_label_set_has_mean_and_deviation() -> None:
    data = Dataset.from_examples(Example("t", number, "a", 1) for number in (1.0, 2.0, 6.0))
    labels = Regression.label_set(data)
    assert labels.numbers == pytest.approx({"mean": 3, "deviation": math.sqrt(14 / 3)})
    assert LabelSet.from_dict(json.loads(json.dumps(labels.to_dict()))) == labels
    with pytest.raises(DataError, match="every text has the same number, 2"):
        Regression.label_set(Dataset.from_examples(Example("t", 2.0, "a", 1) for _ in range(3)))


@pytest.mark.parametrize(
    "labels",
    [
        LabelSet(("value",), "number"),
        LabelSet(("value",), "number", {"mean": 1.0, "deviation": 0.0}),
        LabelSet(("value", "other"), "number", {"mean": 1.0, "deviation": 1.0}),
    ],
)
def test_a_label_set_that_cannot_be_decoded_is_refused(labels: LabelSet) -> None:
    with pytest.raises(DataError, match="one with a mean and a deviation above 0 is needed"):
        Regression(labels)


def test_classes_that_do_not_exist_are_not_weighted() -> None:
    with pytest.raises(ConfigError, match="class_weights: got 'balanced'; regression has no classes"):
        Regression(TASK.labels, LossConfig(class_weights="balanced"))


# Loss, predictions and metrics


@pytest.mark.parametrize("weights", [None, [1.0, 0.0, 2.5]], ids=["plain", "weighted"])
def test_the_loss_is_the_squared_error_of_standardized_numbers(weights: list[float] | None) -> None:
    numbers, logits = [10.0, 2.0, 16.0], [0.5, -1.0, 2.0]
    given = None if weights is None else torch.tensor(weights, dtype=torch.float64)
    loss, weight = TASK.loss(
        torch.tensor(logits)[:, None].double(), torch.from_numpy(TASK.stack([np.float64(n) for n in numbers], 1)), given
    )
    each = [(logit - (number - 10) / 4) ** 2 for logit, number in zip(logits, numbers, strict=True)]
    assert float(loss) == pytest.approx(sum(w * e for w, e in zip(weights or [1.0] * 3, each, strict=True)))
    assert float(weight) == sum(weights or [1.0] * 3)


def test_a_prediction_is_in_the_users_subword() -> None:
    read = Encoded(np.arange(3, dtype=np.int32), None, True, 0)
    prediction = TASK.decode(np.float32([0.5]), read, "a text")
    assert prediction.value == 12
    assert prediction.to_dict() == {"value": 12.0, "truncated": True}
    with pytest.raises(ModelFileError, match="not finite"):
        TASK.decode(np.float32([np.nan]), read, "a text")


@pytest.mark.parametrize("seed", range(4))
def test_metrics_are_those_of_scipy_and_scikit_learn(seed: int) -> None:
    chance = np.random.default_rng(seed)
    targets = np.round(chance.normal(3, 2, 50), 0 if seed % 2 else 6)  # rounded ones have ties
    values = np.round(targets + chance.normal(0, 1, 50), 1)
    found = regression_report(targets, values)
    assert found.mse == pytest.approx(mean_squared_error(targets, values))
    assert found.mae == pytest.approx(mean_absolute_error(targets, values))
    assert found.r2 == pytest.approx(r2_score(targets, values))
    assert found.pearson == pytest.approx(stats.pearsonr(targets, values).statistic)
    assert found.spearman == pytest.approx(stats.spearmanr(targets, values).statistic)


def test_there_is_no_correlation_with_a_constant() -> None:
    found = regression_report(np.array([1.0, 2.0]), np.array([3.0, 3.0]))
    assert (found.pearson, found.spearman, found.mae) == (None, None, 1.5)
    assert regression_report(np.array([2.0, 2.0]), np.array([1.0, 3.0])).r2 is None
    with pytest.raises(DataError, match="nothing to evaluate"):
        regression_report(np.zeros(0), np.zeros(0))


def test_8_bit_weights_are_judged_by_what_they_move() -> None:
    targets = np.full(1000, 10.0)
    before = [np.float32([0.0])] * 1000
    quantization = TASK.compare_quantized(
        before, [*before[:990], *[np.float32([0.25])] * 10], targets
    )  # by 1 in the user's unit
    assert (quantization.decisions, quantization.changed, quantization.worse, quantization.better) == (1000, 10, 10, 0)
    assert (quantization.agreement, quantization.accuracy_drop) == pytest.approx((0.99, 0.25))
    quantization = TASK.compare_quantized([np.float32([0.25])] * 1000, [np.float32([0.2])] * 1000, targets)
    assert (quantization.changed, quantization.worse, quantization.better) == (0, 0, 1000)


# Python, command line, card, comparison


@pytest.mark.slow
def test_the_estimator_is_one_of_scikit_learns(files: Path) -> None:
    texts, numbers = rows(40, seed=1)
    made = TextRegressor.load(files / "model")
    found = made.predict(texts)
    assert (found.dtype, found.shape) == (np.float64, (40,))
    assert stats.pearsonr(found, numbers).statistic > 0.9
    assert abs(found.mean() - np.mean(numbers)) < 2, "in the unit of the targets"
    assert made.score(texts, np.float32(numbers)) == pytest.approx(r2_score(np.float32(numbers), found))
    assert made.predictor_.predict_one(texts[0]).value == pytest.approx(found[0])
    assert clone(TextRegressor(epochs=3)).epochs == 3
    with pytest.raises(DataError, match="without probabilities for texts"):
        made.predictor_.predict_proba(texts)
    with pytest.raises(ModelFileError, match=r"its model gives a number a text; read it with TextRegressor\.load"):
        TextClassifier.load(files / "model")


@pytest.mark.slow
def test_folds_are_scored_by_scikit_learn() -> None:
    found = cross_val_score(TextRegressor(epochs=20, lr=0.02, config=TINY), *rows(160), cv=2, error_score="raise")
    assert found.min() > 0.8


def test_wrong_numbers_are_named() -> None:
    assert numbered_rows(["a", "b"], [Decimal("0.5"), Fraction(1, 4)], "<fit>")[1] == [0.5, 0.25]
    for wrong in (math.nan, "x", True, None, Decimal("sNaN")):
        with pytest.raises(DataError, match=r"<fit>:1: got .* a finite number is required"):
            TextRegressor().fit(["a", "b"], [1.0, wrong])  # type: ignore[list-item]
    with pytest.raises(DataError, match=r"0\.5 has a fraction; .*TextRegressor"):
        TextClassifier().fit(["a", "b"], [0.5, 1.5])


@pytest.mark.slow
def test_from_the_command_line(mixling: Mixling, files: Path, tmp_path: Path) -> None:
    model = tmp_path / "model"
    sets = ["--set", "model.dim=8", "--set", "model.num_layers=1", "--set", "train.batch_size=16"]
    code, out, err = mixling("train", files / "train.csv", "-o", model, "--epochs", 4, "--test-fraction", 0, *sets)
    assert code == 0, err
    assert "task: regression (" in err
    assert "always the mean has mean squared error" in err
    assert "label" not in err.replace("first rows of label", "")
    assert "mean absolute error" in out
    card = (model / "README.md").read_text()
    assert "predicts a number for a text" in card
    assert "type: pearsonr" in card
    assert "a number in the unit of the training rows, whose mean was" in card
    assert "of the predictions on these rows are within 0.1 standard deviations" in card
    assert "label smoothing" not in card
    predictor, texts = Predictor(model), rows(40, seed=1)[0]
    values = [item.value for item in predictor.predict_stream(texts)]
    for name, expected in (
        ("jsonl", [json.dumps({"value": value, "truncated": False}) for value in values]),
        ("csv", ["value", *(f"{value:.6g}" for value in values)]),
        ("text", [f"{value:.6g}" for value in values]),
    ):
        code, out, err = mixling("predict", model, files / "test.csv", "--format", name)
        assert (code, out.splitlines()) == (0, expected), err
    code, out, err = mixling("evaluate", model, files / "test.csv", "-o", tmp_path / "metrics.json")
    metrics = json.loads((tmp_path / "metrics.json").read_text())
    # `evaluate` computes with ONNX Runtime; the native engine rounds activations to 8 bits.
    assert metrics["pearson"] == pytest.approx(stats.pearsonr(values, rows(40, seed=1)[1]).statistic, rel=1e-3)
    assert "labels" not in mixling("show", model)[1]
    code, _, err = mixling("distill", files / "train.csv", "--teacher", "self", "-o", tmp_path / "d")
    assert (code, "regression cannot be learned from a teacher" in err) == (2, True)


@pytest.mark.slow
def test_it_is_compared_with_ridge_regression(mixling: Mixling, files: Path, tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    options = ["--test", files / "test.csv", "--set", "train.epochs=1", "-o", report]
    code, out, err = mixling("compare", files / "train.csv", *options)
    assert code == 0, err
    saved = json.loads(report.read_text())
    by_name = {row["name"]: row for row in saved["results"]}
    assert (saved["metric"], saved["reference"]) == ("mae", "mixling")
    ridge = by_name["tf-idf + ridge"]
    assert ridge["test"]["mean"] < 1, "the numbers are sums of words' numbers"
    assert ridge["validation"]["by_seed"][0] == min(tried["validation"] for tried in ridge["tried"])
    assert ridge["test"]["interval"]["low"] <= ridge["test"]["mean"] <= ridge["test"]["interval"]["high"]
    assert ridge["test"]["difference"] == pytest.approx(ridge["test"]["mean"] - by_name["mixling"]["test"]["mean"])
    assert by_name["median"]["test"]["mean"] > ridge["test"]["mean"]
    assert saved["conclusion"]["rival"] == "tf-idf + ridge"
    assert "points" not in saved["conclusion"]["sentence"]
    assert " ".join(out.split()).endswith(saved["conclusion"]["sentence"])


def test_a_number_without_a_finite_square_is_refused_with_its_row(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"a\.jsonl:2: column 'label' is -1e\+300, .* up to 1e\+150 are allowed"):
        read(tmp_path, 1.5, -1e300)
    with pytest.raises(DataError, match=r"<fit>:1: got 1e\+300, .* up to 1e\+150 are allowed"):
        numbered_rows(["a", "b"], [1.5, 1e300], "<fit>")
    with pytest.raises(DataError, match=r"<fit>:1: got 1000.*; a finite number is required"):
        numbered_rows(["a", "b"], [1.5, 10**400], "<fit>")
    assert numbered_rows(["a", "b"], ["1.5", 2], "<fit>")[1] == [1.5, 2.0]


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([1, -1, 2], "item 1 is -1;"),
        ([1, math.nan, 2], "item 1 is nan;"),
        ([1, 2, 1e40], r"item 2 is 1e\+40;"),
        ([0, 0, 0], "all are 0;"),
        ([1, 2], r"got shape \(2,\);"),
    ],
)
def test_a_wrong_weight_is_named(weights: list[float], message: str) -> None:
    with pytest.raises(DataError, match=f"sample_weight: {message} 3 finite numbers >= 0, not all zero"):
        checked_weights(weights, 3)
