"""Trainings whose models abstain, and thresholds of predictors."""

from __future__ import annotations

import json
import pickle
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mixling import ConfigError, Dataset, Example, Predictor, RunConfig, fit, model_config
from mixling.artifacts import describe
from mixling.artifacts.description import summary
from mixling.cli.commands.export import _export_anew
from mixling.config import parse
from mixling.data import ColumnsConfig
from mixling.runs import evaluate
from mixling.runs.evaluation import evaluate_out_of_scope
from mixling.runtime.onnx import open_model


def examples(number: int, seed: int, wrong: float) -> Dataset:
    """Texts whose first word is the label, or that have no such word."""
    rng = np.random.default_rng(seed)
    out = []
    for i in range(number):
        label = "ab"[int(rng.integers(2))]
        word = {"a": "alpha", "b": "beta"}[label] if rng.random() > wrong else "nothing"
        out.append(Example(f"{word} {rng.choice(['one', 'two', 'three'])}", label, "rows", i))
    return Dataset.from_examples(out)


def config(task: str = "classification", **values: Any) -> RunConfig:
    model = model_config("mixling-tiny", {"text": {"max_len": 16}, "num_layers": 1}).to_dict()
    whole = {"task": task, "model": model, "train": {"epochs": 3}, "ngrams": {"use": "always"}}
    return parse(RunConfig, {**whole, **values}, where="test")


def test_a_model_abstains_where_it_does_not_know(tmp_path: Path) -> None:
    train, validation, test = examples(300, 0, 0.4), examples(150, 1, 0.4), examples(300, 2, 0.4)
    run = fit(config(decisions={"abstain_at": 0.95}), train, validation, folder=tmp_path / "m")
    assert run is not None
    found = run.report["abstention"]
    assert found["accuracy"] >= found["wanted"] == 0.95
    assert run.metrics.numbers()["coverage"] == pytest.approx(found["coverage"])
    assert run.metrics.numbers()["accuracy_of_answered"] == pytest.approx(found["accuracy"])
    predictor = Predictor(tmp_path / "m")
    predictions = predictor.predict(list(test.texts))
    assert isinstance(predictions, list)
    for prediction, text in zip(predictions, test.texts, strict=True):
        assert prediction.abstained == str(text).startswith("nothing"), text
    assert predictor.metadata.threshold == found["threshold"]
    assert f"below a probability of {found['threshold']:.4f}" in summary(describe(str(tmp_path / "m")))
    card = (tmp_path / "m" / "README.md").read_text()
    assert "It abstains" in card
    assert "probability   decisions   mean" in card
    never = Predictor(tmp_path / "m", threshold=0.0)
    assert not any(item.abstained for item in never.predict(list(test.texts)))  # type: ignore[union-attr]
    assert pickle.loads(pickle.dumps(never)).task.threshold == 0.0
    for wrong in (-0.1, 1.5, float("nan"), "x"):
        with pytest.raises(ConfigError, match=r"threshold: got .*; allowed: a probability, from 0 to 1"):
            Predictor(tmp_path / "m", threshold=wrong)  # type: ignore[arg-type]


def test_out_of_scope_texts_choose_and_conformal_sets_are_fitted_apart(tmp_path: Path) -> None:
    train, validation, test = examples(300, 0, 0.2), examples(200, 1, 0.2), examples(300, 2, 0.2)
    outside = tmp_path / "outside.txt"
    outside.write_text("nothing one\nnothing two\nnothing three\n")
    run = fit(
        config(decisions={"out_of_scope": (str(outside),), "conformal": 0.9, "conformal_method": "lac"}),
        train, validation, folder=tmp_path / "m",
    )  # fmt: skip
    assert run is not None
    assert run.report["out_of_scope"]["false_accept_rate"] == 0
    assert run.metrics.to_dict()["n"] == 100  # the others are kept apart
    assert run.report["conformal"]["examples"] == 100
    assert "100 validation examples that chose nothing" in (tmp_path / "m" / "README.md").read_text()
    predictor = Predictor(tmp_path / "m")
    predictions = predictor.predict(list(test.texts))
    assert isinstance(predictions, list)
    for prediction, text in zip(predictions, test.texts, strict=True):
        assert prediction.abstained == str(text).startswith("nothing"), text
        sets = predictor.metadata.conformal
        assert sets is not None
        expected = [name for name, p in (prediction.probabilities or {}).items() if 1 - p <= sets.quantile]
        assert set(prediction.label_set or ()) == set(expected)
    anew = Predictor(_export_anew(str(tmp_path / "m"), "float32", open_model(tmp_path / "m", num_threads=1)))
    assert (anew.metadata.conformal, anew.metadata.threshold) == (sets, predictor.metadata.threshold)
    evaluation = evaluate(predictor, test)
    found = evaluate_out_of_scope(predictor, [str(outside)], evaluation.confidence, columns=ColumnsConfig())
    assert (found.texts, found.false_accept_rate) == (3, 0)
    assert found.auroc > 0.8
    covered = [target in (item.label_set or ()) for item, target in zip(predictions, test.targets, strict=True)]
    assert evaluation.metrics.numbers()["set_coverage"] == pytest.approx(np.mean(covered))
    with pytest.raises(ConfigError, match=r"half of the 30 .*15 are too few .* which needs 19; .* at most 0.937"):
        fit(config(decisions={"conformal": 0.95}), train, validation[:30], folder=tmp_path / "n")
    with pytest.raises(ConfigError, match="conformal: multi_label has no single answer"):
        config("multi_label", decisions={"conformal": 0.9})


def test_an_accuracy_that_cannot_be_had_is_an_error_with_what_can(tmp_path: Path) -> None:
    train, validation = examples(100, 0, 1.0), examples(60, 1, 1.0)
    with pytest.raises(
        ConfigError, match=r"no threshold gives an accuracy of 0.98 .* the most that can be had is 0\.\d"
    ) as raised:
        fit(config(decisions={"abstain_at": 0.98}), train, validation, folder=tmp_path / "m")
    assert json.loads((tmp_path / "m" / "metrics.json").read_text())["abstention"]["threshold"] is None
    assert Predictor(tmp_path / "m").predict_one("nothing").abstained is None
    highest = re.search(r"can be had is ([0-9.]+)", str(raised.value))
    assert highest is not None
    assert (
        fit(config(decisions={"abstain_at": float(highest[1])}), train, validation, folder=tmp_path / "n") is not None
    )


def test_too_few_examples_for_an_accuracy_are_an_error_before_the_training(tmp_path: Path) -> None:
    train, validation = examples(100, 0, 0.0), examples(18, 1, 0.0)
    wanted = r"abstain_at: 18 validation examples are too few .* accuracy of 0.95, which needs 19; .* at most 0.947"
    with pytest.raises(ConfigError, match=wanted):
        fit(config(decisions={"abstain_at": 0.95}), train, validation, folder=tmp_path / "m")
    assert not (tmp_path / "m" / "model.onnx").exists()
    assert fit(config(decisions={"abstain_at": 0.947}), train, validation, folder=tmp_path / "n") is not None


def test_thresholds_of_usual_accuracies_are_reported_without_a_wanted_one(tmp_path: Path) -> None:
    train, validation = examples(300, 0, 0.4), examples(150, 1, 0.4)
    run = fit(config(ngrams={"use": "never"}), train, validation, folder=tmp_path / "m")
    assert run is not None
    predictor = Predictor(tmp_path / "m")
    assert (run.report["abstention"], predictor.metadata.threshold) == (None, None)
    probabilities = predictor.predict_proba(list(validation.texts))
    right = probabilities.argmax(1) == predictor.labels.ids(validation.targets)
    assert [item["wanted"] for item in run.report["risk_coverage"]] == [0.9, 0.95, 0.98, 0.99]
    *reached, last = run.report["risk_coverage"]
    assert last["threshold"] is None  # fewer than 99 are answered
    for item in reached:
        answered = probabilities.max(1) >= item["threshold"]
        assert item["coverage"] == pytest.approx(answered.mean())
        assert item["accuracy"] == pytest.approx(right[answered].mean())
        assert item["accuracy"] >= item["wanted"]
        assert f"| {item['threshold']:.4f} | {item['coverage']:.1%} |" in (tmp_path / "m" / "README.md").read_text()


def test_thresholds_are_chosen_on_examples_that_the_n_gram_branch_has_not_seen(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    noise = Dataset.from_examples(
        Example(f"{word}{word} {word}", "ab"[int(rng.integers(2))], "noise", i)
        for i, word in enumerate(f"w{number:x}" for number in rng.integers(2**40, 2**41, 100))
    )
    train, validation = examples(200, 0, 0.0), Dataset.from_examples([*examples(100, 1, 0.0), *noise])
    run = fit(
        config(train={"epochs": 1}, ngrams={"use": "always", "refit": True}), train, validation, folder=tmp_path / "m"
    )
    assert run is not None
    found = run.report["risk_coverage"][0]
    # The saved branch was fitted on these examples as well, and knows the labels of the noise.
    probabilities = Predictor(tmp_path / "m").predict_proba(list(validation.texts))
    right = probabilities.argmax(1) == Predictor(tmp_path / "m").labels.ids(validation.targets)
    assert right.mean() > 0.9
    assert found["threshold"] is not None
    assert found["coverage"] < 0.7


def test_tasks_without_one_label_do_not_abstain() -> None:
    with pytest.raises(ConfigError, match="abstain_at: multi_label has no single answer"):
        config("multi_label", decisions={"abstain_at": 0.9})


def test_a_threshold_of_labels_that_do_not_exclude_each_other(tmp_path: Path) -> None:
    rows = examples(60, 0, 0.0)
    several = Dataset.from_examples(
        Example(text, (str(target),), "rows", i)
        for i, (text, target) in enumerate(zip(rows.texts, rows.targets, strict=True))
    )
    assert fit(config("multi_label", train={"epochs": 1}), several, several, folder=tmp_path / "m") is not None
    low, high = (Predictor(tmp_path / "m", threshold=value) for value in (0.0, 1.0))
    assert low.predict_one("alpha one").labels == ("a", "b")
    assert high.predict_one("alpha one").labels == ()
    assert Predictor(tmp_path / "m").predict_one("alpha one").abstained is None
