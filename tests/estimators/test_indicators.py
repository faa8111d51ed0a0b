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

from mixling import DataError, Predictor, TextClassifier, TextRegressor

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
    for where in ("run", "run/model.onnx"):
        loaded = TextClassifier.load(tmp_path / where)
        assert loaded.classes_.tolist() == [0, 1, 2]
        np.testing.assert_array_equal(loaded.predict(texts), dense)
        np.testing.assert_array_equal(loaded.predict_proba(texts), probabilities)


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
        (np.fromiter([[0, 0]] * 8, object), "the indicator matrix has no 1"),
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


class Table:
    """A table as pandas and polars have it, as far as it is read."""

    def __init__(self, columns: dict[str, list[Any]], names: list[str] | None = None) -> None:
        self._values = columns
        self.columns = names or list(columns)
        self.shape = (len(next(iter(columns.values()))), len(columns))
        self.ndim = 2

    def __getitem__(self, names: list[str]) -> Table:
        return Table({name: self._values[name] for name in names})

    def to_numpy(self) -> np.ndarray:
        return np.array(list(zip(*self._values.values(), strict=True)), object)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return self.to_numpy().astype(dtype or object)


@pytest.mark.slow
def test_the_columns_of_a_table_are_labels(tmp_path: Path) -> None:
    texts, marks = rows()
    names = ["film", "boring", "good"]
    table = Table({name: marks[:, i].tolist() for i, name in enumerate(names)})
    made = classifier().fit(texts, table, validation=(texts, table[["good", "boring", "film"]]))
    made.save(tmp_path)
    assert Predictor(tmp_path).predict(texts[1]).labels == ("film", "good")
    for same in (made, TextClassifier.load(tmp_path)):
        assert same.classes_.tolist() == names
        found = same.predict(texts)
        assert same.score(texts, table) == same.score(texts, table[names[::-1]]) == accuracy_score(marks, found) > 0.9
        np.testing.assert_array_equal(same.predict_proba(texts) >= 0.5, found)


@pytest.mark.slow
def test_lists_of_marks_are_a_matrix_and_other_marks_are_read() -> None:
    texts, marks = rows()
    expected = classifier().fit(texts, marks).predict(texts)
    lists = marks.tolist()
    for same in (lists, list(map(tuple, lists)), list(marks), [[str(mark) for mark in row] for row in lists]):
        np.testing.assert_array_equal(classifier().fit(texts, same).predict(texts), expected)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (Table({"a": [1, 0], "b": [2, 0]}), "<fit>:0: got 2 in column b of an indicator matrix; 0 and 1 are allowed"),
        (Table({"a": [1, 0], "b": [0, None]}), "<fit>:1: got None in column b"),
        (Table({"a": [1, 0], "b": [0, 1]}, ["a", "a"]), "<fit>: column 'a' occurs twice in the indicator matrix"),
        (Table({"a": [1, 0]}), r"<fit>: .* for one label give the column, df\['a'\]"),
    ],
)
def test_wrong_tables_are_refused(table: Table, message: str) -> None:
    with pytest.raises(DataError, match=message):
        classifier().fit(["a", "b"], table)


@pytest.mark.slow
@pytest.mark.parametrize(
    "kinds",
    [(1, 2), (10, 9), (-1, 1), (1.0, 2.0), (True, False), ("x", 3), ("1", "2"), (np.int64(10), np.int64(9))],
    ids=str,
)
def test_labels_keep_their_kind_in_the_file(kinds: tuple[Any, Any], tmp_path: Path) -> None:
    texts, marks = rows()
    labels = [kinds[mark] for mark in marks[:, 2]]
    made = classifier(epochs=2).fit(texts, labels)
    made.save(tmp_path)
    for same in (pickle.loads(pickle.dumps(made)), TextClassifier.load(tmp_path / "model.onnx")):
        assert same.classes_.tolist() == made.classes_.tolist()
        assert same.classes_.dtype == made.classes_.dtype
        assert list(map(type, same.classes_)) == list(map(type, made.classes_))
        np.testing.assert_array_equal(same.predict_proba(texts), made.predict_proba(texts))
        assert same.score(texts, labels) == np.mean([a == b for a, b in zip(same.predict(texts), labels, strict=True)])
    sets = [{label, kinds[0]} for label in labels]
    several = classifier(epochs=2).fit(texts, sets)
    several.save(tmp_path)
    assert TextClassifier.load(tmp_path).predict(texts) == several.predict(texts)


@pytest.mark.slow
def test_lists_of_one_label_and_lists_written_as_text() -> None:
    texts, marks = rows()
    names = [["good"] if mark else ["bad"] for mark in marks[:, 2]]
    made = classifier(epochs=2).fit(texts, names)
    assert set(map(type, made.predict(texts))) == {tuple}
    single = classifier(epochs=2, config={**TINY, "task": "classification"}).fit(texts, names)
    assert single.classes_.tolist() == ["bad", "good"]
    assert single.score(texts, names) == single.score(texts, [name for [name] in names])
    as_text = classifier(epochs=2).fit(texts, [str(["film", *name]) for name in names])
    assert as_text.classes_.tolist() == ["bad", "film", "good"]
    assert as_text.score(texts, [str(["film", *name]) for name in names]) == as_text.score(
        texts, [("film", *name) for name in names]
    )
    objects = [{"film": 1, "good": name == ["good"], "bad": name == ["bad"]} for name in names]
    assert as_text.score(texts, objects) == as_text.score(texts, [("film", *name) for name in names])
    with pytest.raises(DataError, match="got an indicator matrix, but the model was fitted on sets of labels"):
        as_text.score(texts, marks)


def test_pairs_that_are_lists_are_refused() -> None:
    pairs = [["first text", "second text"], ["a b", "c d"]] * 4
    for made in (classifier(), TextRegressor(config=TINY)):
        with pytest.raises(DataError, match=r"<fit>: each text is a list whose words contain blanks, .*tuple\(pair\)"):
            made.fit(pairs, [1, 2] * 4)
    with pytest.raises(DataError, match="join the parts"):
        classifier().fit([["a b", "c d", "e"]] * 8, [1, 2] * 4)
    with pytest.raises(DataError, match=r"got one ndarray of 2 dimensions, not a list of texts"):
        classifier().fit(np.array([["a b", "c d", "e"]] * 8), [1, 2] * 4)


@pytest.mark.slow
def test_pairs_that_are_lists_are_not_predicted_for() -> None:
    texts, marks = rows()
    made = classifier(epochs=1).fit(texts, marks[:, 2])
    for ask in (made.predict, made.predict_proba):
        with pytest.raises(DataError, match=r"<predict>: each text is a list .*tuple\(pair\)"):
            ask([["please help", "about login"], ["a b", "c d"]])
    assert len(made.predict([["New York", "is"], ["a", "b"]])) == 2


def test_labels_that_look_alike_are_a_warning() -> None:
    with pytest.warns(UserWarning, match="<fit>: labels that differ only in case: Good, good"):
        classifier(epochs=1).fit([f"text {i}" for i in range(20)], ["Good", "good"] * 10)
