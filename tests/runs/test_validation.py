"""Validation reads long texts as predictors do."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from mixling import Dataset, Example, Predictor, RunConfig, fit, model_config
from mixling.config import parse
from mixling.runs import data, evaluate, evaluation


def examples(number: int, seed: int, *, words: int) -> Dataset:
    """Texts whose last word is that of their label."""
    rng = np.random.default_rng(seed)
    out = []
    for i in range(number):
        label, word = (("a", "alpha"), ("b", "beta"))[int(rng.integers(2))]
        filler = " ".join(rng.choice(["one", "two", "three", "four"], words - 1))
        out.append(Example(f"{filler} {word}", label, "rows", i))
    return Dataset.from_examples(out)


def test_all_metrics_are_of_texts_read_to_the_end(tmp_path: Path) -> None:
    train, validation = examples(200, 0, words=6), examples(120, 1, words=40)
    model = model_config("mixling-tiny", {"text": {"max_len": 16}, "num_layers": 1}).to_dict()
    values = {
        "task": "classification",
        "model": model,
        "train": {"epochs": 4, "seed": 1},
        "decisions": {"abstain_at": 0.9},
    }
    run = fit(parse(RunConfig, values, where="test"), train, validation, folder=tmp_path / "m")
    assert run is not None
    found = evaluate(Predictor(tmp_path / "m"), validation).metrics.numbers()
    assert run.metrics.numbers() == pytest.approx(found, abs=1e-5)
    assert found["accuracy"] > 0.9  # .78 to 1 by the seed; truncated, below .7
    assert run.report["quantization"]["agreement"] > 0.95  # the float model's answers are to all of the text, too
    cut = evaluate(Predictor(tmp_path / "m", too_long="truncate"), validation).metrics.numbers()
    assert cut["accuracy"] < 0.7  # the word is not read
    epochs = [json.loads(line) for line in (tmp_path / "m" / "metrics.jsonl").read_text().splitlines()]
    assert max(epoch["val_accuracy"] for epoch in epochs if "val_accuracy" in epoch) > 0.9


def test_of_many_labels_few_rows_are_held_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The scores of all labels for all test rows fit into memory; the other rows are trained on."""
    (tmp_path / "rows.csv").write_text("text,label\n" + "".join(f"word{i} x,label {i % 20}\n" for i in range(600)))
    monkeypatch.setattr(data, "_MAX_TEST_SCORES", 20 * 50)
    monkeypatch.setattr(data, "_LEAST_VALIDATION", 10)
    values = {"train": [str(tmp_path / "rows.csv")], "test_fraction": 0.5}
    config = parse(RunConfig, {"task": "classification", "data": values}, where="test")
    train, validation, test = data.read_splits(config, spool_dir=None, log=lambda message: None)
    assert test is not None
    assert len(test) == 50
    assert len(train) + len(validation) == 550


def test_very_many_labels_are_evaluated_in_small_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    train, validation = examples(60, 0, words=6), examples(40, 1, words=6)
    model = model_config("mixling-tiny", {"text": {"max_len": 16}, "num_layers": 1}).to_dict()
    values = {"task": "classification", "model": model, "train": {"epochs": 1}, "ngrams": {"use": "never"}}
    assert fit(parse(RunConfig, values, where="test"), train, validation, folder=tmp_path / "m") is not None
    whole = evaluate(Predictor(tmp_path / "m"), validation, keep=True)
    monkeypatch.setattr(evaluation, "MAX_TABLE_LABELS", 1)
    monkeypatch.setattr(evaluation, "_MANY_SCORES", 10)
    monkeypatch.setattr(evaluation, "_KEPT", 1)
    parts = evaluate(Predictor(tmp_path / "m"), validation, keep=True)
    assert parts.metrics == whole.metrics
    assert [item.label for item in parts.predictions] == [item.label for item in whole.predictions]
    assert {len(item.probabilities or {}) for item in parts.predictions} == {1}
