"""The scikit-learn face: what scikit-learn's own tools ask of an estimator, on text."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError as SklearnNotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer

from mixling import Predictor, TextClassifier, TokenLabeller
from mixling.errors import ConfigError, DataError, ModelFileError, NotFittedError

GOOD, BAD = ("fine", "great", "lovely", "superb"), ("awful", "poor", "dreadful", "dull")
TINY: dict[str, Any] = {
    "model": {"dim": 8, "num_layers": 1, "text": {"max_len": 8, "projection": {"num_features": 64, "num_hashes": 8}}},
    "train": {"batch_size": 8, "word_dropout": 0, "device": "cpu"},
}


def rows(count: int = 48) -> tuple[list[str], list[bool]]:
    """Sentences that one word decides."""
    texts = [f"a {(GOOD if i % 2 else BAD)[i // 2 % 4]} film number {i}" for i in range(count)]
    return texts, [bool(i % 2) for i in range(count)]


def classifier(**changes: Any) -> TextClassifier:
    return TextClassifier(**{"epochs": 6, "lr": 0.02, "config": TINY, **changes})


@pytest.fixture(scope="module")
def fitted() -> TextClassifier:
    texts, labels = rows()
    return classifier().fit(texts, np.array(labels))


def test_parameters_are_those_of_scikit_learn() -> None:
    made = classifier(lr=0.5, seed=3)
    assert made.get_params()["lr"] == 0.5
    copy = clone(made)
    assert copy is not made
    assert copy.get_params() == made.get_params()
    assert copy.set_params(seed=4).seed == 4
    with pytest.raises(ValueError, match="Invalid parameter"):
        made.set_params(learning_rate=1)


def test_before_fit_the_error_says_so() -> None:
    for call in ("predict", "predict_proba"):
        with pytest.raises(NotFittedError, match="call fit"):
            getattr(classifier(), call)(["a"])
    with pytest.raises(SklearnNotFittedError if issubclass(NotFittedError, SklearnNotFittedError) else ValueError):
        classifier().predict(["a"])
    with pytest.raises(NotFittedError):
        TokenLabeller().predict([["a"]])


def test_booleans_go_in_and_come_out(fitted: TextClassifier) -> None:
    texts, labels = rows()
    assert fitted.classes_.tolist() == [False, True]
    assert fitted.classes_.dtype == bool
    predicted = fitted.predict(texts)
    assert predicted.dtype == bool
    assert fitted.score(texts, labels) == np.mean(predicted == np.array(labels)) >= 0.9
    proba = fitted.predict_proba(texts)
    assert proba.shape == (len(texts), 2)
    np.testing.assert_allclose(proba.sum(1), 1)
    np.testing.assert_array_equal(fitted.classes_[proba.argmax(1)], predicted)


def test_a_fitted_estimator_survives_pickling_saving_and_loading(fitted: TextClassifier, tmp_path: Path) -> None:
    texts, _ = rows()
    expected = fitted.predict_proba(texts)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(fitted)).predict_proba(texts), expected)
    fitted.save(tmp_path / "model")
    loaded = TextClassifier.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict_proba(texts), expected)
    assert set(loaded.predict(texts)) <= {"true", "false"}
    assert Predictor(tmp_path / "model").predict(texts[0]).label == str(fitted.predict(texts[:1])[0]).lower()
    with pytest.raises(ModelFileError, match=r"TextClassifier\.load"):
        TokenLabeller.load(tmp_path / "model")
    with pytest.raises(ModelFileError, match="nowhere"):
        TextClassifier.load(tmp_path / "nowhere")


def test_integers_keep_their_order() -> None:
    texts, labels = rows()
    made = classifier(epochs=1).fit(texts, [10 if label else 9 for label in labels])
    assert made.classes_.tolist() == [9, 10]  # by value, where text would put 10 first
    assert set(made.predict(texts).tolist()) <= {9, 10}


def test_grid_search_over_a_pipeline() -> None:
    texts, labels = rows()
    lower = FunctionTransformer(lambda items: [item.lower() for item in items])
    search = GridSearchCV(
        Pipeline([("lower", lower), ("classify", classifier(epochs=30))]), {"classify__lr": [1e-6, 0.02]}, cv=2
    )
    search.fit(texts, ["good" if label else "bad" for label in labels])
    assert search.best_params_ == {"classify__lr": 0.02}
    assert set(search.predict(texts[:4])) <= {"good", "bad"}


def test_weights_decide_between_contradicting_rows() -> None:
    texts = [f"same words {i % 6}" for i in range(48)]
    labels = ["yes" if i < 24 else "no" for i in range(48)]
    for winner in ("yes", "no"):
        weights = [1.0 if label == winner else 0.0 for label in labels]
        dev = (texts[:1], [winner])
        made = classifier(epochs=4).fit(texts, labels, sample_weight=weights, dev=dev)
        assert set(made.predict(texts)) == {winner}
    for wrong in ([1.0], [-1.0] * 48, [float("nan")] * 48, [0.0] * 48):
        with pytest.raises(DataError, match="sample_weight"):
            classifier().fit(texts, labels, sample_weight=wrong)


def test_sets_of_labels_make_it_multi_label() -> None:
    texts, labels = rows()
    sets = [{"film", "good"} if label else {"film"} for label in labels]
    made = classifier(epochs=10).fit(texts, sets)
    assert made.classes_.tolist() == ["film", "good"]
    assert np.mean([set(found) == gold for found, gold in zip(made.predict(texts), sets, strict=True)]) > 0.9


def test_pairs_and_wrong_texts() -> None:
    texts, labels = rows(24)
    pairs = [(text, "yes") for text in texts]
    assert len(classifier(epochs=1).fit(pairs, labels).predict(pairs)) == 24
    for wrong, message in (([1] * 24, "a text is needed"), (texts[:5], "5 texts but 24"), ([("a",)] * 24, "pair")):
        with pytest.raises(DataError, match=message):
            classifier().fit(wrong, labels)
    with pytest.raises(DataError, match="float"):
        classifier().fit(texts, [0.5] * 24)
    with pytest.raises(ConfigError, match="did you mean 'pnlp-mixer-x-small'"):
        classifier(model="pnlp-mixer-xsmall").fit(texts, labels)


def test_a_tagger(tmp_path: Path) -> None:
    words = [["book", f"{i}", "flights", "to", city] for i, city in enumerate(("Rome", "Oslo", "Lima", "Bonn") * 12)]
    tags = [["O", "O", "O", "O", "B-city"]] * 48
    made = TokenLabeller(epochs=8, lr=0.02, config=TINY).fit(words, tags)
    assert made.score(words, tags) == 1
    long = [*(["x"] * 9), "Rome"]
    assert len(made.predict([long])[0]) == 10  # beyond max_len: O
    span = made.predict_spans(["book 3 flights to Oslo"])[0].spans[0]
    assert (span.label, span.start, span.end) == ("city", 18, 22)
    made.save(tmp_path)
    assert TokenLabeller.load(tmp_path).predict(words[:2]) == made.predict(words[:2])
    with pytest.raises(DataError, match="5 words but 4 tags"):
        TokenLabeller(config=TINY).fit(words, [tags[0][:4]] * 48)
