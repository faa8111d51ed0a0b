"""Indicator matrices in and out of `TextClassifier`, as scikit-learn's own multi-label classifiers have them."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse
from sklearn.metrics import accuracy_score
from sklearn.model_selection import cross_val_score
from sklearn.multiclass import OneVsRestClassifier
from sklearn.tree import DecisionTreeClassifier

from mixling import DataError, TextClassifier

TINY: dict[str, Any] = {
    "model": {"dim": 8, "num_layers": 1, "text": {"max_len": 8, "projection": {"num_features": 64, "num_hashes": 8}}},
    "train": {"batch_size": 8, "token_dropout": 0, "device": "cpu"},
}


def rows(count: int = 48) -> tuple[list[str], np.ndarray]:
    """Texts with three labels: every one has 0, one word decides on 2, and no text has 1."""
    good = np.arange(count) % 2
    texts = [f"a {'great' if mark else 'awful'} film number {i}" for i, mark in enumerate(good)]
    return texts, np.stack([np.ones_like(good), np.zeros_like(good), good], 1)


def classifier(**changes: Any) -> TextClassifier:
    return TextClassifier(**{"epochs": 10, "lr": 0.02, "config": TINY, **changes})


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind",
    [np.asarray, sparse.csr_matrix, sparse.coo_array, lambda y: y.astype(bool)],
    ids=["array", "matrix", "sparse", "bool"],
)
def test_predictions_have_the_form_of_the_targets(kind: Any, tmp_path: Path) -> None:
    texts, marks = rows()
    made = classifier().fit(texts, kind(marks), validation=(texts, kind(marks)))
    theirs = OneVsRestClassifier(DecisionTreeClassifier()).fit(np.eye(4), np.eye(4, 3, dtype=int))
    assert made.classes_.tolist() == theirs.classes_.tolist() == [0, 1, 2]
    found = made.predict(texts)
    assert sparse.issparse(found) == sparse.issparse(kind(marks))
    assert isinstance(found, sparse.sparray) == isinstance(kind(marks), sparse.sparray)
    dense = found.toarray() if sparse.issparse(found) else found
    assert (dense.shape, dense.dtype) == ((48, 3), np.int64)
    assert accuracy_score(marks, dense) == made.score(texts, kind(marks)) > 0.9
    probabilities = made.predict_proba(texts)
    np.testing.assert_array_equal(probabilities >= 0.5, dense)
    assert not probabilities[:, 1].any()
    again = pickle.loads(pickle.dumps(made))
    np.testing.assert_array_equal(again.predict_proba(texts[:3]), probabilities[:3])
    made.save(tmp_path / "run")
    assert set(TextClassifier.load(tmp_path / "run").predict(texts)) == {("0",), ("0", "2")}


@pytest.mark.slow
def test_folds_are_scored_by_scikit_learn() -> None:
    texts, marks = rows(96)
    marks[:3, 1] = 1  # so few that a fold's training rows may have none
    found = cross_val_score(classifier(), texts, marks, scoring="f1_micro", cv=3, error_score="raise")
    assert found.min() > 0.9


@pytest.mark.parametrize(
    ("targets", "message"),
    [
        (np.ones((8, 1), int), r"<fit>: got targets of shape \(8, 1\); .* two columns or more: .*y\.ravel"),
        (np.ones((7, 2), int), "8 texts but 7 targets"),
        (
            np.array([[0, 1]] * 5 + [[2, 0]] * 3),
            "<fit>:5: got 2 in column 0 of an indicator matrix; 0 and 1 are allowed",
        ),
        (np.array([[0, 1.0]] * 5 + [[0.5, 0]] * 3), r"<fit>:5: got 0\.5 in column 0"),
        (sparse.csr_array(np.array([[0, 1]] * 6 + [[0, -1]] * 2)), "<fit>:6: got -1 in column 1"),
        (np.array([[0, 1.0]] * 7 + [[0, np.nan]]), "<fit>:7: got nan in column 1"),
        (np.zeros((8, 3), int), "the indicator matrix has no 1"),
        (np.zeros((8, 3, 2), int), "of 3 dimensions, not a list of targets"),
        (np.array([["a", "b"]] * 8), "of 2 dimensions, not a list of targets"),
    ],
)
def test_matrices_that_are_none_are_refused(targets: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        classifier().fit(["a text"] * 8, targets)


def test_other_targets_than_those_of_fit_are_refused() -> None:
    texts, marks = rows()
    for other in (marks[:, :2], [("0",)] * 48, np.zeros(48)):
        with pytest.raises(
            DataError,
            match=r"<validation>: got targets of .*; a matrix of 0 and 1 with 3 columns is "
            r"needed",
        ):
            classifier(epochs=1).fit(texts, marks, validation=(texts, other))
