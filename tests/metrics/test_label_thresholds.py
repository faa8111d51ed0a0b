"""Thresholds of labels, against trying all of them; stored in files, and set by users."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mixling.metrics.label_thresholds import MIN_EXAMPLES, choose_label_threshold


def tried(truth: np.ndarray, values: np.ndarray) -> list[tuple[float, float, float, float]]:
    """Threshold, precision, recall and F1 of predicting from each value on."""
    out = []
    for threshold in np.unique(values):
        predicted = values >= threshold
        hits = (predicted & truth).sum()
        out.append((threshold, hits / predicted.sum(), hits / truth.sum(), 2 * hits / (predicted.sum() + truth.sum())))
    return out


def f1(truth: np.ndarray, predicted: np.ndarray) -> float:
    return float(2 * (truth & predicted).sum() / (truth.sum() + predicted.sum()))


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("precision", [None, 0.5, 0.8, 0.999])
def test_the_threshold_is_the_best_of_all(seed: int, precision: float | None) -> None:
    rng = np.random.default_rng(seed)
    values = np.round(rng.random(150), 2)  # with ties
    truth = rng.random(150) < values**2
    found = choose_label_threshold(truth, values, precision=precision)
    assert found.threshold is not None
    predicted = values >= found.threshold
    assert not (np.abs(values - found.threshold) < 1e-3).any()
    assert found.precision == pytest.approx((predicted & truth).sum() / predicted.sum())
    assert found.recall == pytest.approx((predicted & truth).sum() / truth.sum())
    options = tried(truth, values)
    if precision is None:
        assert f1(truth, predicted) == pytest.approx(max(item[3] for item in options))
        return
    enough = [item for item in options if item[1] >= precision]
    assert found.reached == bool(enough)
    if enough:
        assert found.recall == pytest.approx(max(item[2] for item in enough))
    else:
        assert found.precision == pytest.approx(max(item[1] for item in options))


def test_a_rare_label_keeps_the_default() -> None:
    truth = np.arange(30) < MIN_EXAMPLES - 1
    assert choose_label_threshold(truth, np.linspace(1, 0, 30)).threshold is None


@pytest.mark.slow
def test_thresholds_of_labels_are_stored_and_set(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    from mixling import ConfigError, Dataset, Example, Predictor, RunConfig, fit, model_config
    from mixling.config import parse

    rng = np.random.default_rng(0)
    words = {"a": "alpha", "b": "beta"}
    examples = []
    for i in range(150):
        names = tuple(name for name in "ab" if rng.random() < 0.3)
        shown = [words[name] for name in names if rng.random() < 0.8]
        examples.append(Example(" ".join([*shown, f"row {rng.integers(9)}"]), names, "rows", i))
    train, validation = Dataset.from_examples(examples[:90]), Dataset.from_examples(examples[90:])
    model = model_config("mixling-tiny", {"text": {"max_len": 16}, "num_layers": 1}).to_dict()
    values = {"task": "multi_label", "model": model, "train": {"epochs": 3}, "ngrams": {"use": "never"}}
    config = parse(RunConfig, {**values, "decisions": {"label_thresholds": "f1"}}, where="test")
    run = fit(config, train, validation, folder=tmp_path / "m")
    assert run is not None
    predictor = Predictor(tmp_path / "m")
    texts = list(validation.texts)
    probabilities = predictor.predict_proba(texts)
    truth = np.array([[name in names for name in "ab"] for names in validation.targets])  # type: ignore[operator]
    chosen = predictor.metadata.label_thresholds
    assert set(chosen) == {"a", "b"}
    predictions = predictor.predict(texts)
    assert isinstance(predictions, list)
    for column, name in enumerate("ab"):
        predicted = np.array([name in (item.labels or ()) for item in predictions])
        assert (predicted == (probabilities[:, column] >= chosen[name])).all()
        assert f1(truth[:, column], predicted) == pytest.approx(
            max(item[3] for item in tried(truth[:, column], probabilities[:, column]))
        )
    assert run.metrics.numbers()["macro_f1"] == pytest.approx(
        np.mean([f1(truth[:, i], probabilities[:, i] >= chosen[name]) for i, name in enumerate("ab")])
    )
    never = Predictor(tmp_path / "m", threshold={"b": 1.0})
    assert all("b" not in (item.labels or ()) for item in never.predict(texts))  # type: ignore[union-attr]
    assert never.task.label_thresholds["a"] == chosen["a"]
    everything = Predictor(tmp_path / "m", threshold=0.0).predict(texts)
    assert all(item.labels == ("a", "b") for item in everything)  # type: ignore[union-attr]
    with pytest.raises(ConfigError, match="threshold: the model has no label 'c'; allowed: a, b"):
        Predictor(tmp_path / "m", threshold={"c": 0.5})
    with pytest.raises(ConfigError, match="label_thresholds: classification does not predict several labels"):
        parse(RunConfig, {"decisions": {"label_thresholds": 0.9}}, where="test")
    for wrong in ("f2", 1.5, 0, True):
        with pytest.raises(
            ConfigError, match=r'^test: decisions.label_thresholds: got .*; allowed: "f1", or a precision between'
        ):
            parse(RunConfig, {"task": "multi_label", "decisions": {"label_thresholds": wrong}}, where="test")
