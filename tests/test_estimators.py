"""The scikit-learn face: what scikit-learn's own tools ask of an estimator, on text."""

from __future__ import annotations

import json
import os
import pickle
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError as SklearnNotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer

from mixling import ConfigError, DataError, ModelFileError, Predictor, TextClassifier, TokenClassifier, UserError
from mixling.errors import NotFittedError
from mixling.estimators import base

GOOD, BAD = ("fine", "great", "lovely", "superb"), ("awful", "poor", "dreadful", "dull")
TINY: dict[str, Any] = {
    "model": {"dim": 8, "num_layers": 1, "text": {"max_len": 8, "projection": {"num_features": 64, "num_hashes": 8}}},
    "train": {
        "batch_size": 8,
        "token_dropout": 0,
        "augmentation": {"pseudo_words": 0, "typos": 0},
        "device": "cpu",
    },
    "ngrams": {"use": "never"},
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


def test_before_fit_the_error_states_so() -> None:
    for call in ("predict", "predict_proba"):
        with pytest.raises(NotFittedError, match="call fit"):
            getattr(classifier(), call)(["a"])
    with pytest.raises(SklearnNotFittedError if issubclass(NotFittedError, SklearnNotFittedError) else ValueError):
        classifier().predict(["a"])
    with pytest.raises(NotFittedError):
        TokenClassifier().predict([["a"]])


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
    assert loaded.files_ == fitted.files_
    alone = TextClassifier.load(tmp_path / "model" / "model.onnx")
    np.testing.assert_array_equal(alone.predict_proba(texts), expected)
    alone.save(tmp_path / "alone")
    assert [path.name for path in (tmp_path / "alone").iterdir()] == ["model.onnx"]
    with pytest.raises(ModelFileError, match=r"README\.md: "):
        TextClassifier.load(tmp_path / "model" / "README.md")
    for same in (loaded, alone):
        assert same.classes_.dtype == bool
        np.testing.assert_array_equal(same.predict(texts), fitted.predict(texts))
    assert Predictor(tmp_path / "model").predict(texts[0]).label == str(fitted.predict(texts[:1])[0]).lower()
    with pytest.raises(ModelFileError, match=r"TextClassifier\.load"):
        TokenClassifier.load(tmp_path / "model")
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
        validation = (texts[:1], [winner])
        made = classifier(epochs=4).fit(texts, labels, sample_weight=weights, validation=validation)
        assert set(made.predict(texts)) == {winner}
    for wrong in ([1.0], [-1.0] * 48, [float("nan")] * 48, [0.0] * 48, ["a"] * 48, [[1], [2, 3]], 1j):
        with pytest.raises(DataError, match="sample_weight"):
            classifier().fit(texts, labels, sample_weight=wrong)


def test_sets_of_labels_make_it_multi_label() -> None:
    texts, labels = rows()
    sets = [{"film", "good"} if label else {"film"} for label in labels]
    made = classifier(epochs=10).fit(texts, sets)
    assert made.classes_.tolist() == ["film", "good"]
    right = [set(found) == gold for found, gold in zip(made.predict(texts), sets, strict=True)]
    assert made.score(texts, sets) == made.score(texts, [[*labels, *labels] for labels in sets]) == np.mean(right) > 0.9
    weights = np.arange(1, 49)
    odd = [{"good"}, *sets[1:]]
    assert made.score(texts, odd, sample_weight=weights) == pytest.approx(np.average([0, *right[1:]], weights=weights))
    with pytest.raises(DataError, match=r"<score>:1: got 'film'; a collection of labels is required"):
        made.score(texts, [{"film"}, *["film"] * 47])


def test_grid_search_of_a_multi_label_model() -> None:
    texts, labels = rows()
    sets = [{"film", "good"} if label else {"film"} for label in labels]
    # Sets, because scikit-learn's own folds refuse targets that are lists or tuples.
    search = GridSearchCV(classifier(epochs=30), {"lr": [1e-6, 0.02]}, cv=2, error_score="raise", refit=False)
    search.fit(texts, sets)
    assert search.best_params_ == {"lr": 0.02}
    assert search.best_score_ > 0.5


def test_pairs_and_wrong_texts() -> None:
    texts, labels = rows(24)
    pairs = [(text, "yes") for text in texts]
    paired = classifier(epochs=1).fit(pairs, labels)
    assert len(paired.predict(pairs)) == 24
    assert 0 <= paired.score(pairs, labels) <= 1
    for ask in (paired.predict, paired.predict_proba):
        with pytest.raises(DataError, match="item 0 is one text; this model was trained on pairs"):
            ask(texts)
    for wrong, message in (
        ([1] * 24, "which is not a text"),
        (texts[:5], "5 texts but 24"),
        ([("a",)] * 24, "2 to 8 texts"),
    ):
        with pytest.raises(DataError, match=message):
            classifier().fit(wrong, labels)
    with pytest.raises(
        DataError,
        match="<fit>:3: got one text, but the first example is a pair of texts; give each example as many texts",
    ):
        classifier().fit([*pairs[:3], "a", *pairs[4:]], labels)
    with pytest.raises(DataError, match="<validation>:0: got a pair of texts, but the first example is one text"):
        classifier().fit(texts, labels, validation=(pairs, labels))
    with pytest.raises(DataError, match=r"label 0\.5 has a fraction; .* use TextRegressor"):
        classifier().fit(texts, [0.5] * 24)
    with pytest.raises(ConfigError, match="did you mean 'pnlp-mixer-x-small'"):
        classifier(model="pnlp-mixer-xsmall").fit(texts, labels)


def test_a_tagger(tmp_path: Path) -> None:
    words = [["book", f"{i}", "flights", "to", city] for i, city in enumerate(("Rome", "Oslo", "Lima", "Bonn") * 12)]
    tags = [["O", "O", "O", "O", "B-city"]] * 48
    made = TokenClassifier(epochs=8, lr=0.02, config=TINY).fit(words, tags)
    assert made.score(words, tags) == 1
    long = [*(["x"] * 9), "Rome"]
    assert len(made.predict([long])[0]) == 10  # beyond max_len: O
    span = made.predict_spans(["book 3 flights to Oslo"])[0].spans[0]
    assert (span.label, span.start, span.end) == ("city", 18, 22)
    made.save(tmp_path)
    assert TokenClassifier.load(tmp_path).predict(words[:2]) == made.predict(words[:2])
    assert TokenClassifier.load(tmp_path / "model.onnx").predict(words[:2]) == made.predict(words[:2])
    assert made.predict([np.array(words[0]), tuple(words[1])]) == made.predict(words[:2])

    assert made.score(words[:2], [tags[0], ["B-city", "O", "O", "O", "O"]], sample_weight=[3, 1]) == 18 / 20
    for wrong, message in (
        (["play jazz"], "item 0 is of type str; a sentence is a list of words"),
        ("play", "one str"),
    ):
        with pytest.raises(DataError, match=message):
            made.predict(wrong)
    for score_words, score_tags, weights, message in (
        ([], [], None, "nothing to score"),
        (words, tags[:3], None, "48 texts but 3 targets"),
        (words[:2], [tags[0], tags[0][:4]], None, "<score>:1: its tags: 5 tokens but 4 slots"),
        (words[:2], tags[:2], ["a", 1], r"sample_weight: got \['a', 1\]; 2 finite numbers >= 0"),
        (words[:2], tags[:2], [1], r"sample_weight: got shape \(1,\)"),
    ):
        with pytest.raises(DataError, match=message):
            made.score(score_words, score_tags, sample_weight=weights)


WORDS, TAGS = ["to", "Rome"], ["O", "B-city"]


@pytest.mark.parametrize(
    ("words", "tags", "message"),
    [
        (WORDS, ["O"], "its tags: 2 tokens but 1 slots; give each token one"),
        (WORDS, ["O", "I-city"], r"bad tag at token 2 \('Rome'\): 'I-city' follows 'O'; a span begins with B-city"),
        (WORDS, ["O", "X"], "bad tag at token 2 .*got 'X'; allowed: O, B-name and I-name"),
        (WORDS, ["O", None], "its tags: slot 2 is empty"),
        (WORDS, "O B-city", r"its tags is a string \(O B-city\); allowed: a list of strings"),
        ("to Rome", TAGS, r"the sentence is a string \(to Rome\); allowed: a list of strings"),
        (["to", 3], TAGS, "the sentence: token 2 is not text but a number"),
        (["to", " "], TAGS, "the sentence: token 2 is empty"),
        ([], [], "the sentence is empty; give at least one token"),
    ],
)
def test_wrong_sentences_and_tags_are_named(words: Any, tags: Any, message: str) -> None:
    with pytest.raises(DataError, match=f"<fit>:3: .*{message}"):
        TokenClassifier(config=TINY).fit([*[WORDS] * 3, words, WORDS], [*[TAGS] * 3, tags, TAGS])
    beside = ([*[WORDS] * 3, words], [*[TAGS] * 3, tags])
    with pytest.raises(DataError, match=f"<validation>:3: .*{message}"):
        TokenClassifier(config=TINY).fit([WORDS] * 9, [TAGS] * 9, validation=beside)


@pytest.mark.parametrize("wrong", ["one text", b"ab", None, 7, {"a": 1}])
def test_what_is_no_list_is_not_taken_apart(fitted: TextClassifier, wrong: Any) -> None:
    for ask in (fitted.predict, fitted.predict_proba, lambda X: fitted.score(X, ["yes"] * 8)):
        with pytest.raises(DataError, match="not a list of texts"):
            ask(wrong)
    for made in (classifier(), TokenClassifier(config=TINY)):
        with pytest.raises(DataError, match="not a list of texts"):
            made.fit(wrong, ["yes", "no"] * 4)
        with pytest.raises(DataError, match=r"not a list of targets|there are no targets"):
            made.fit(["a text"] * 8, wrong)


class Column(list[Any]):
    """A column of lists as polars has it: its items are columns, too, and only `to_list` gives lists."""

    def __iter__(self) -> Any:
        return (object() for _ in range(len(self)))

    def to_list(self) -> list[Any]:
        return self[:]


@pytest.mark.parametrize(
    ("targets", "message"),
    [
        ([["a", "b"], *["ab"] * 9], "<fit>:1: got 'ab'; a collection of labels is required"),
        (["ab", *[["a", "b"]] * 9], r"<fit>:1: got \"\['a', 'b'\]\"; one label is required"),
        ([["a"], [None], *[["b"]] * 8], r"<fit>:1: the label is missing \(None\)"),
        (Column([["a"], [None], *[["b"]] * 8]), r"<fit>:1: the label is missing \(None\)"),
        (["a", None, *["b"] * 8], r"<fit>:1: the label is missing \(None\)"),
        (["a", float("nan"), *["b"] * 8], r"<fit>:1: the label is missing \(nan\)"),
        (["a", b"b", *["b"] * 8], r"<fit>:1: label b'b' is of type bytes; .* decode it: label\.decode\(\)"),
        (["a", " ", *["b"] * 8], r"<fit>:1: the label is empty \(' '\); give each text one"),
        (["a", "['a', ..., 'b']", *["b"] * 8], "<fit>:1: the label begins like a list, but is none in JSON's"),
        ([1, True, *[2] * 8], r"<fit>:1: got the label a boolean \(True\), which was a number before"),
        ([True, 1, *[2] * 8], r"<fit>:1: got the label a number \(1\), which was a boolean before"),
        ([1, 1.5, *[2] * 8], r"<fit>:1: label 1\.5 has a fraction; .* map\(str, y\)"),
        (["1", 1, *["b"] * 8], "<fit>:1: got the label a number .1., which was a string before"),
        (["a"] * 10, "only the label 'a' in 10 training rows"),
    ],
)
def test_wrong_targets_are_named(targets: list[Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        classifier().fit(["same text"] * 10, targets)
    with pytest.raises(DataError, match="<validation>:0: got"):
        classifier().fit(["a", "b"], ["x", "y"], validation=(["c"], [["x", "y"]]))


@pytest.mark.slow
def test_a_teacher_is_an_estimator_a_function_or_a_folder(tmp_path: Path) -> None:
    from sklearn.feature_extraction.text import CountVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    texts = [f"{'gut' if i % 2 else 'mau'}{i % 9} word{i % 4}" for i in range(60)]
    labels = [i % 2 for i in range(60)]
    more = [f"gut{i % 9} and mau{i % 5} more{i}" for i in range(50)]
    config = {"model": {"dim": 8, "text": {"projection": {"num_hashes": 8}}}, "distill": {"teacher": "", "copies": 1}}
    pipeline = make_pipeline(CountVectorizer(), LogisticRegression()).fit(texts, labels)
    made = TextClassifier(epochs=1, config=config).fit(texts, labels, teacher=pipeline, unlabeled=more)
    saved = json.loads(made.files_["run.json"])["config"]
    assert saved["distill"]["teacher"] == "<Pipeline>"
    assert saved["model"]["text"]["projection"]["num_features"] == 5120  # the base model, as the command line takes
    assert made.classes_.tolist() == [0, 1]
    made.save(tmp_path / "model")
    asked: list[int] = []

    def teacher(texts: list) -> list:
        asked.append(len(texts))
        return [{"0": 0.25, "1": 0.75} for _ in texts]

    for one in (teacher, str(tmp_path / "model")):
        TextClassifier(epochs=1, config=config).fit(texts, labels, teacher=one, unlabeled=more)
    assert sum(asked) == 60 + len(more)  # validation, the other rows, and what is unlabeled


@pytest.mark.parametrize(
    ("teacher", "unlabeled", "message"),
    [
        (None, ["a text"], "unlabeled texts are for a teacher to label"),
        (5, [], "teacher: got int; a model's folder, an estimator or a function is allowed"),
        (TextClassifier(), [], "this TextClassifier has no classes_: fit it first"),
        (lambda texts: None, [], "the teacher returned None"),
        (lambda texts: ["x"] * len(texts), [], "prediction for text 0 is 'x'"),
        (lambda texts: [], ["a", None], "<unlabeled>:1: got None, which is not a text"),
        (lambda texts: [], [("a", "b")], "<unlabeled>:0: got a pair of texts; allowed: one text"),
        (lambda texts: [], "abc", "got one str, not a list of texts"),
    ],
)
def test_teachers_and_texts_that_are_none(teacher: Any, unlabeled: Any, message: str) -> None:
    texts, labels = [f"word{i % 5} {i}" for i in range(40)], ["ab"[i % 2] for i in range(40)]
    with pytest.raises(UserError, match=message):
        TextClassifier(epochs=1).fit(texts, labels, teacher=teacher, unlabeled=unlabeled)


def test_a_misspelt_parameter_names_the_class_and_the_near_miss() -> None:
    for kind in (TextClassifier, TokenClassifier):
        with pytest.raises(TypeError, match=rf"{kind.__name__} has no parameter 'modle'; did you mean 'model'\?"):
            kind(modle="mixling-tiny")


def test_a_table_is_answered_by_one_of_its_columns(fitted: TextClassifier) -> None:
    class Table:
        ndim, columns = 2, ["review", "stars"]

        def __iter__(self) -> Any:
            return iter(self.columns)

    with pytest.raises(DataError, match=r"got one Table of 2 dimensions.*such as df\['review'\]"):
        fitted.predict(Table())  # type: ignore[arg-type]


def test_too_few_rows_are_answered_in_terms_of_python() -> None:
    with pytest.raises(DataError, match=r"too few .*validation=\(X, y\)") as error:
        TextClassifier().fit(["a", "b"], ["x", "y"])
    assert "--" not in str(error.value)


def test_progress_is_shown_on_request(capfd: pytest.CaptureFixture[str]) -> None:
    texts, labels = rows()
    for verbose in (0, 1, 2):
        made = classifier(epochs=2, verbose=verbose).fit(texts, labels)
        out, err = capfd.readouterr()
        steps = [line for line in err.splitlines() if re.match(r"\s*[\d.]+/\d+ ", line)]
        assert out == ""
        assert len(steps) == (len(made.history_) if verbose else 0)
        assert ("parameters" in err) is (verbose > 1)
        assert bool(err) is bool(verbose)


def test_of_a_folder_only_a_runs_own_files_are_kept(
    fitted: TextClassifier, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, secret = tmp_path / "model", tmp_path / "secret.key"
    fitted.save(folder)
    secret.write_text("MY-PRIVATE-KEY")
    (folder / "extra.txt").symlink_to(secret)
    (folder / "notes.txt").write_text("MY-PRIVATE-NOTES")
    (folder / "README.md").unlink()
    (folder / "README.md").symlink_to(secret)
    os.mkfifo(folder / "curves.svg")
    with (folder / "large.bin").open("wb") as file:
        file.truncate(1 << 40)
    loaded = TextClassifier.load(folder)
    assert loaded.files_ == {name: content for name, content in fitted.files_.items() if name != "README.md"}
    assert b"MY-PRIVATE" not in pickle.dumps(loaded)
    loaded.save(tmp_path / "saved")
    assert {path.name for path in (tmp_path / "saved").iterdir()} == set(loaded.files_)
    with (folder / "metrics.json").open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(ModelFileError, match=r"metrics\.json: has 1,099,511,627,776 bytes; allowed"):
        TextClassifier.load(folder)
    (folder / "metrics.json").unlink()
    (folder / "model.onnx").rename(tmp_path / "elsewhere.onnx")
    (folder / "model.onnx").symlink_to(tmp_path / "elsewhere.onnx")
    assert TextClassifier.load(folder).files_["model.onnx"] == fitted.files_["model.onnx"]


def test_progress_is_shown_where_somebody_watches(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a terminal, but not in a pipe, nor for each fit of a cross-validation, here or in a worker's thread."""
    from joblib import Parallel, delayed
    from sklearn.model_selection import cross_validate

    watched: list[bool] = []

    class Recorded(TextClassifier):
        def fit(self, X: Any, y: Any) -> Any:  # type: ignore[override]
            watched.append(base._is_watched())
            self.classes_ = np.array(["a", "b"])
            return self

        def score(self, X: Any, y: Any) -> float:  # type: ignore[override]
            return 1.0

    texts, labels = ["x", "y"] * 4, ["a", "b"] * 4
    assert Recorded().verbose is None
    for terminal in (False, True):
        monkeypatch.setattr("sys.stderr.isatty", lambda terminal=terminal: terminal, raising=False)
        Recorded().fit(texts, labels)
        cross_validate(Recorded(), texts, labels, cv=2)
        Parallel(n_jobs=2, backend="threading")(delayed(Recorded().fit)(texts, labels) for _ in range(2))
        assert watched == [terminal, False, False, False, False]
        watched.clear()
