"""Tables in and out: pandas, Polars, Arrow, dictionaries, rows, arrays and columns, as people have them."""

from __future__ import annotations

import argparse
import copy
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.model_selection import GridSearchCV, cross_val_predict
from sklearn.pipeline import Pipeline

from mixling import ConfigError, DataError, Predictor, TextClassifier, TextRegressor, TokenClassifier

pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")
pa = pytest.importorskip("pyarrow")

TINY: dict[str, Any] = {
    "model": {"dim": 8, "num_layers": 1, "text": {"max_len": 8, "projection": {"num_features": 64, "num_hashes": 8}}},
    "train": {"batch_size": 8, "token_dropout": 0, "augmentation": {"pseudo_words": 0, "typos": 0}, "device": "cpu"},
    "ngrams": {"use": "never"},
}
WORDS = {"good": ("fine", "great", "lovely", "superb"), "bad": ("awful", "poor", "dreadful", "dull")}
ROWS = 40
LABELS = ["good" if row % 2 else "bad" for row in range(ROWS)]
TEXTS = [f"a {WORDS[label][row // 2 % 4]} film number {row}" for row, label in enumerate(LABELS)]


class Dataset:
    """What is read of a data set of Hugging Face, whose package is not needed for it."""

    __module__ = "datasets.arrow_dataset"

    def __init__(self, columns: dict[str, list[Any]]) -> None:
        self._columns = columns
        self.column_names = list(columns)

    def __len__(self) -> int:
        return len(self._columns[self.column_names[0]])

    def __getitem__(self, name: str) -> list[Any]:
        return self._columns[name]

    @classmethod
    def from_dict(cls, columns: dict[str, list[Any]]) -> Dataset:
        return cls(columns)


class Stream:
    """What is read of a data set of Hugging Face that streams rows."""

    def __init__(self, columns: dict[str, list[Any]]) -> None:
        self.to_list = Dataset(columns)  # is there, but not called
        self.column_names = list(columns)
        self._rows = zip(*columns.values(), strict=True)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for row in self._rows:
            yield dict(zip(self.column_names, row, strict=True))


COLUMNS: dict[str, Any] = {"id": list(range(ROWS)), "review": TEXTS, "stars": LABELS}
TABLES: dict[str, Callable[[], Any]] = {
    "pandas": lambda: pd.DataFrame(COLUMNS, index=[f"row {row}" for row in range(ROWS)]),
    "arrow strings": lambda: pd.DataFrame(COLUMNS).astype({"review": "string[pyarrow]", "stars": "category"}),
    "categories": lambda: pd.DataFrame(COLUMNS).astype({"review": "category"}),
    "polars": lambda: pl.DataFrame(COLUMNS),
    "arrow": lambda: pa.table(COLUMNS),
    "batch": lambda: pa.RecordBatch.from_pydict(COLUMNS),
    "datasets": lambda: Dataset(COLUMNS),
    "stream": lambda: Stream(COLUMNS),
    "columns": lambda: COLUMNS,
    "rows": lambda: [dict(zip(COLUMNS, row, strict=True)) for row in zip(*COLUMNS.values(), strict=True)],
    "generator": lambda: (dict(zip(COLUMNS, row, strict=True)) for row in zip(*COLUMNS.values(), strict=True)),
}


def classifier(**changes: Any) -> TextClassifier:
    return TextClassifier(**{"epochs": 6, "lr": 0.02, "config": TINY, **changes})


@pytest.fixture(scope="module")
def fitted() -> TextClassifier:
    return classifier().fit(TABLES["pandas"](), text="review", label="stars")


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["arrow strings", "polars", "arrow", "datasets", "columns", "generator"])
def test_a_table_is_learned_as_its_columns_are(kind: str) -> None:
    expected = classifier(epochs=1).fit(TEXTS, LABELS)
    made = classifier(epochs=1).fit(TABLES[kind](), text="review", label="stars")
    np.testing.assert_array_equal(made.predict_proba(TEXTS), expected.predict_proba(TEXTS))


@pytest.mark.parametrize("kind", TABLES)
def test_every_table_is_predicted_and_scored(kind: str, fitted: TextClassifier) -> None:
    assert fitted.predict(TABLES[kind]()).tolist() == fitted.predict(TEXTS).tolist()
    np.testing.assert_array_equal(fitted.predict_proba(TABLES[kind]()), fitted.predict_proba(TEXTS))
    assert fitted.score(TABLES[kind]()) == fitted.score(TEXTS, LABELS) > 0.9
    assert fitted.report(TABLES[kind]()).numbers()["accuracy"] == fitted.score(TEXTS, LABELS)


def test_a_table_gives_a_table_of_its_library(fitted: TextClassifier) -> None:
    answers = fitted.predictor_.predict(TEXTS)
    expected = {
        "label": [answer.label for answer in answers],
        "confidence": [max((answer.probabilities or {}).values()) for answer in answers],
        "bad": [(answer.probabilities or {})["bad"] for answer in answers],
        "good": [(answer.probabilities or {})["good"] for answer in answers],
    }
    table = TABLES["pandas"]()
    found = fitted.predictor_.predict(table, text="review")
    pd.testing.assert_frame_equal(found, pd.DataFrame(expected, index=table.index))
    assert fitted.predictor_(TABLES["polars"](), text="review").to_dict(as_series=False) == expected
    assert fitted.predictor_(TABLES["arrow"](), text="review").to_pydict() == expected
    assert fitted.predictor_(TABLES["datasets"](), text="review")._columns == expected
    assert fitted.predictor_({"text": TEXTS}) == expected
    assert fitted.predictor_(TABLES["rows"](), text="review") == answers == fitted.predictor_(TEXTS)
    assert list(fitted.predictor_.predict_stream(TABLES["generator"](), text="review")) == answers


@pytest.mark.parametrize(
    "index",
    [
        pd.MultiIndex.from_tuples([(row // 2, row % 2) for row in range(ROWS)], names=["shop", "day"]),
        pd.Index([0] * ROWS),
        pd.date_range("2026-01-01", periods=ROWS),
        pd.RangeIndex(5, 5 + ROWS),
    ],
    ids=["several levels", "repeated", "dates", "shifted"],
)
def test_the_index_is_kept(index: Any, fitted: TextClassifier) -> None:
    table = TABLES["pandas"]().set_index(index)
    pd.testing.assert_index_equal(fitted.predictor_.predict(table, text="review").index, index)
    made = copy.deepcopy(fitted).set_output(transform="pandas")
    for out in (made.predict(table), made.predict_proba(table), made.transform(table)):
        pd.testing.assert_index_equal(out.index, index)
    assert made.predict(table).columns.tolist() == ["label", "confidence", "bad", "good"]
    assert made.predict_proba(table["review"]).index.equals(index)
    assert made.predict(TEXTS[:2]).index.tolist() == [0, 1]
    assert made.set_output(transform="polars").predict(table).columns == ["label", "confidence", "bad", "good"]
    assert isinstance(made.set_output(transform="default").predict(table), np.ndarray)


@pytest.mark.parametrize(
    "column",
    [
        TEXTS,
        pd.Series(TEXTS),
        pd.Series(TEXTS, dtype="string[pyarrow]"),
        pl.Series(TEXTS),
        pa.array(TEXTS),
        pa.chunked_array([TEXTS[:7], TEXTS[7:]]),
        np.array(TEXTS),
        np.array(TEXTS, object),
        np.array(TEXTS, object)[:, None],
        pd.DataFrame({"any name": TEXTS})[["any name"]],
    ],
    ids=lambda value: type(value).__name__,
)
def test_columns_are_texts(column: Any, fitted: TextClassifier) -> None:
    predictor = fitted.predictor_
    expected = predictor.predict_proba(TEXTS)
    np.testing.assert_array_equal(predictor.predict_proba(column), expected)
    if not isinstance(column, pd.DataFrame):
        np.testing.assert_array_equal(fitted.predict_proba(column), expected)


@pytest.mark.parametrize("value", [np.nan, None, pd.NA, pd.NaT], ids=["nan", "None", "NA", "NaT"])
def test_a_missing_text_is_named(value: Any, fitted: TextClassifier) -> None:
    table = TABLES["pandas"]().astype({"review": object})
    table.iloc[3, 1] = value
    message = r"<predict>:3: column 'review' \(index 'row 3'\) is missing .*drop such rows"
    for ask in (fitted.predict, fitted.predict_proba, lambda some: fitted.predictor_.predict(some, text="review")):
        with pytest.raises(DataError, match=message):
            ask(table)
    with pytest.raises(DataError, match=r"<predict>:3: the text \(index 'row 3'\) is missing"):
        fitted.predict(table["review"])
    with pytest.raises(DataError, match=message.replace("predict", "fit")):
        classifier().fit(table, text="review", label="stars")
    with pytest.raises(DataError, match=message.replace("predict", "score")):
        fitted.score(table)
    if value is None:
        for kind in (pl.from_pandas, pa.Table.from_pandas):
            with pytest.raises(DataError, match=r"<predict>:3: column 'review' is missing \(None\)"):
                fitted.predict(kind(table[["review"]].reset_index(drop=True)))


def test_a_missing_label_is_named() -> None:
    for value in (np.nan, None, pd.NA, pd.NaT):
        table = TABLES["pandas"]().astype({"stars": object})
        table.iloc[5, 2] = value
        with pytest.raises(DataError, match="<fit>:5: the label is missing"):
            classifier().fit(table, text="review", label="stars")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda table: table.rename(columns={"review": "reviews"}), "no column 'review'; did you mean 'reviews'"),
        (lambda table: table[["id"]], "no column 'review'; allowed: id"),
        (lambda table: pd.concat([table, table[["review"]]], axis=1), "2 columns are called 'review'; rename one"),
        (lambda table: table.assign(review=range(ROWS)), "is 0, of type int; a string is needed"),
        (lambda table: pl.from_pandas(table).lazy(), r"LazyFrame of polars.*\.collect\(\)"),
    ],
    ids=["near miss", "absent", "twice", "numbers", "lazy"],
)
def test_tables_that_do_not_fit_are_refused(change: Callable[[Any], Any], message: str, fitted: TextClassifier) -> None:
    with pytest.raises(DataError, match=message):
        fitted.predict(change(TABLES["pandas"]()))
    with pytest.raises(DataError, match=message):
        fitted.predictor_.predict(change(TABLES["pandas"]()), text="review")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "which column has the targets.*the table has id, review, stars"),
        ({"label": "stars"}, "which column is the text.*the table has id, review"),
        ({"y": LABELS}, "which column is the text.*the table has id, review, stars"),
        ({"text": "review", "label": "star"}, "no column 'star'; did you mean 'stars'"),
        ({"text": "stars", "label": "stars"}, "named as two of text, label and features"),
        ({"text": "review", "label": "stars", "y": LABELS}, "both y and label="),
        ({"text": "review", "label": "stars", "X": TEXTS}, "label: names a column, but got one list"),
        ({"text": "review", "y": LABELS, "X": TEXTS}, "text: 'review' names a column, but got one list"),
        ({"y": LABELS[:3], "text": "review"}, "40 texts but 3 targets"),
        ({"X": TEXTS}, "there are no targets"),
        ({"X": {"text": TEXTS, "label": LABELS[:3]}}, "columns of 2 lengths"),
    ],
)
def test_what_fit_cannot_know_is_asked_for(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        classifier().fit(**{"X": TABLES["pandas"](), **arguments})
    with pytest.raises(ConfigError, match="text: got the column 'id' twice; name each once"):
        classifier().fit(TABLES["pandas"](), text=("id", "review", "id"), label="stars")


def test_a_table_without_rows_has_a_table_without_rows(fitted: TextClassifier) -> None:
    empty = TABLES["pandas"]().iloc[:0]
    assert fitted.predict(empty).tolist() == []
    found = fitted.predictor_.predict(empty, text="review")
    assert (found.shape, found.columns.tolist()) == ((0, 4), ["label", "confidence", "bad", "good"])
    with pytest.raises(DataError, match="at least two distinct labels"):
        classifier().fit(empty, text="review", label="stars")


@pytest.mark.slow
def test_the_columns_of_a_run_are_saved_with_it(fitted: TextClassifier, tmp_path: Path) -> None:
    fitted.save(tmp_path)
    loaded = TextClassifier.load(tmp_path)
    assert (loaded.text_, loaded.label_) == (("review",), "stars")
    assert loaded.score(TABLES["polars"]()) == fitted.score(TEXTS, LABELS)
    alone = TextClassifier.load(tmp_path / "model.onnx")
    with pytest.raises(DataError, match="which column is the text"):
        alone.predict(TABLES["pandas"]())
    assert alone.predict(TABLES["pandas"]()[["review"]]).tolist() == fitted.predict(TEXTS).tolist()


@pytest.mark.slow
def test_scikit_learn_searches_and_folds_tables() -> None:
    table = TABLES["pandas"]()
    search = GridSearchCV(classifier(), {"lr": [1e-6, 0.02]}, cv=2).fit(table, text="review", label="stars")
    assert search.best_params_ == {"lr": 0.02}
    assert search.predict(table).tolist() == search.predict(TEXTS).tolist()
    found = cross_val_predict(classifier(), table[["review"]], table["stars"], cv=2)
    assert found.tolist() == cross_val_predict(classifier(), TEXTS, LABELS, cv=2).tolist()
    selected = Pipeline(
        [("select", ColumnTransformer([("text", "passthrough", ["review"])])), ("classify", classifier())]
    )
    expected = classifier().fit(TEXTS, LABELS).predict(TEXTS)
    assert selected.fit(table, table["stars"]).predict(table).tolist() == expected.tolist()
    vectors = ColumnTransformer([("text", classifier(), "review"), ("id", "passthrough", ["id"])])
    out = vectors.set_output(transform="pandas").fit_transform(table, table["stars"])
    assert out.index.equals(table.index)
    assert out.columns[0].startswith("text__textclassifier0")


@pytest.mark.slow
def test_two_columns_are_pairs() -> None:
    table = pd.DataFrame({"first": TEXTS, "second": TEXTS[::-1], "label": LABELS})
    expected = classifier(epochs=1).fit(list(zip(TEXTS, TEXTS[::-1], strict=True)), LABELS)
    for made in (
        classifier(epochs=1).fit(table, text=("first", "second")),
        classifier(epochs=1).fit(table[["first", "second"]], table["label"]),
        classifier(epochs=1).fit(table[["first", "second"]].to_numpy(), LABELS),
    ):
        np.testing.assert_array_equal(
            made.predict_proba(table[["first", "second"]]),
            expected.predict_proba(list(zip(TEXTS, TEXTS[::-1], strict=True))),
        )


@pytest.mark.slow
def test_several_labels_are_lists_or_columns() -> None:
    marks = np.array([[1, row % 2] for row in range(ROWS)])
    sets = [["film", "good"] if row % 2 else ["film"] for row in range(ROWS)]
    table = pd.DataFrame({"text": TEXTS, "film": marks[:, 0], "good": marks[:, 1], "label": sets})
    of_lists = classifier(epochs=2).fit(table[["text", "label"]])
    of_arrow = classifier(epochs=2).fit(pa.Table.from_pandas(table[["text", "label"]]))
    assert of_lists.predict(table) == of_arrow.predict(TEXTS)
    of_columns = classifier(epochs=2).fit(table, text="text", label=["film", "good"], validation=table)
    assert of_columns.predict(table).shape == (ROWS, 2)
    assert of_columns.score(table) == of_columns.score(TEXTS, marks)
    assert of_columns.predictor_.predict(table, text="text").columns.tolist() == ["labels", "film", "good"]
    with pytest.raises(DataError, match="<fit>:1: got 2 in column good of an indicator matrix; 0 and 1 are allowed"):
        classifier().fit(table.assign(good=[1, 2] * (ROWS // 2)), text="text", label=["film", "good"])


@pytest.mark.slow
def test_numbers_and_tags_have_tables_too() -> None:
    table = pd.DataFrame({"text": TEXTS, "price": [float(row % 2) for row in range(ROWS)]}, index=range(7, 7 + ROWS))
    regressor = TextRegressor(epochs=2, config=TINY).fit(table, label="price", validation=table)
    assert regressor.score(table) == regressor.score(TEXTS, table["price"])
    assert regressor.predictor_.predict(table[["text"]]).index.equals(table.index)
    out = regressor.set_output(transform="pandas").predict(table)
    assert out["value"].tolist() == [answer.value for answer in regressor.predictor_.predict(TEXTS)]
    words = [text.split() for text in TEXTS]
    tagged = pd.DataFrame({"tokens": words, "slots": [["B-x", *["O"] * (len(item) - 1)] for item in words]})
    tagger = TokenClassifier(epochs=1, config=TINY).fit(tagged)
    assert tagger.score(tagged) == tagger.score(words, tagged["slots"].tolist())
    assert tagger.predictor_.predict(tagged[["tokens"]]).columns.tolist() == ["tokens", "tags", "spans"]
    assert tagger.report(tagged).n == ROWS


def test_a_label_may_have_the_name_of_another_column() -> None:
    made = classifier(epochs=1).fit(TEXTS, ["label" if row % 2 else "confidence" for row in range(ROWS)])
    found = made.predictor_.predict(pd.DataFrame({"x": TEXTS}))
    assert found.columns.tolist() == ["label", "confidence", "class confidence", "class label"]


def test_integers_come_out_as_integers() -> None:
    made = classifier(epochs=1).fit(TEXTS, [row % 2 for row in range(ROWS)])
    assert made.predictor_.predict(pd.DataFrame({"x": TEXTS}))["label"].dtype == np.int64


def test_what_notebooks_show(fitted: TextClassifier) -> None:
    report = fitted.report(TEXTS, LABELS)
    assert repr(report).startswith(f"ClassificationMetrics(n={ROWS}, accuracy=")
    assert len(repr(report)) < 120
    assert "precision  recall" in str(report)
    for item, expected in (
        (report, "macro F1"),
        (fitted.predictor_.predict(TEXTS[0]), "bad"),
        (fitted.predictor_.explain(TEXTS[0]), "<mark"),
    ):
        assert expected in item._repr_html_()
        assert len(repr(item)) < 160
    assert "&lt;" in fitted.predictor_.explain("a <b> film")._repr_html_()


def test_no_library_of_tables_is_imported_for_lists() -> None:
    script = (
        "import sys; from mixling import Predictor; from mixling.samples.sets import demo_model\n"
        "p = Predictor(demo_model()); p(['a text']); p({'text': ['a', 'b']}); p([{'text': 'a'}]); p(iter(['a']))\n"
        "assert not {'pandas', 'polars', 'pyarrow', 'datasets'} & set(sys.modules), sorted(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


def test_a_class_of_another_module_is_no_table(fitted: TextClassifier) -> None:
    strange = argparse.Namespace(columns=["review"])
    with pytest.raises(DataError, match="not a list of texts"):
        fitted.predict(strange)
    assert isinstance(fitted.predictor_, Predictor)


@pytest.mark.parametrize("library", [pd.DataFrame, pl.DataFrame, pa.table, dict])
def test_columns_beside_the_text(library: Any, tmp_path: Path) -> None:
    prices = [(7 * row) % ROWS - ROWS / 2 for row in range(ROWS)]
    labels = ["dear" if price > 0 else "cheap" for price in prices]
    table = library({"text": [f"film number {row}" for row in range(ROWS)], "label": labels, "price": prices})
    config = {**TINY, "ngrams": {"use": "always"}}
    model = TextClassifier(epochs=1, config=config).fit(table, features=["price:number"], validation=table)
    assert model.score(table) > 0.9
    assert model.features_ == model.predictor_.features == ("price:number",)
    model.save(tmp_path)
    loaded = TextClassifier.load(tmp_path)
    assert loaded.features_ == model.features_
    np.testing.assert_array_equal(loaded.predict(table), model.predict(table))
    assert loaded.report(table).to_dict()["accuracy"] == model.score(table)
    assert loaded.transform({"text": ["a film"], "price": [1]}).shape == loaded.predictor_.encode(["a film"]).shape
    dearer = {"text": ["a film"] * 2, "price": [-20.0, 20.0]}
    assert loaded.predict(dearer).tolist() == ["cheap", "dear"]
    numbers = TextRegressor(epochs=1, config=config).fit(table, label="price", features="label")
    assert numbers.predictor_.features == ("label:category",)


@pytest.mark.parametrize(
    ("features", "message"),
    [
        ("prise", "<fit>: the table has no column 'prise'; did you mean 'price'"),
        (["label"], "<fit>: column 'label' is named as two of text, label and features"),
        (["text"], "<fit>: column 'text' is named as two of text, label and features"),
        (["other:number"], "<fit>:0: column 'other' is not a number: 'x'"),
    ],
)
def test_columns_that_cannot_be_beside_the_text(features: Any, message: str) -> None:
    table = {"text": TEXTS, "label": LABELS, "price": [1] * ROWS, "other": ["x"] * ROWS}
    with pytest.raises(DataError, match=message):
        TextClassifier(config=TINY | {"ngrams": {"use": "always"}}).fit(table, text="text", features=features)
    with pytest.raises(DataError, match="<fit>: features: names a column, but got one list; give a table"):
        TextClassifier(config=TINY).fit(TEXTS, LABELS, features=features)
