"""The baselines that read columns, beside directly written scikit-learn, and their place in a comparison."""

from __future__ import annotations

import random
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_matrix, hstack
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import OneHotEncoder

from mixling import ConfigError, DataError
from mixling.comparison import chosen_systems, column_baselines, compare, with_columns
from mixling.features import with_cells
from mixling.runs.resolve import LABELS, resolve
from mixling.tasks import Classification, MultiLabel, Regression
from mixling.text import Text
from mixling.training import Callback

KINDS = {"price": None, "channel": None, "day": None}
FIRST = date(2025, 1, 1)


def rows(count: int, seed: int) -> tuple[list[Text], list[str]]:
    """Texts whose price and channel decide, sometimes missing, the channel sometimes of one row alone."""
    chance = random.Random(seed)
    texts: list[Text] = []
    labels = []
    for number in range(count):
        price = None if chance.random() < 0.1 else str(chance.randrange(100))
        channel = chance.choice(["mail", "chat", "shop", "", f"only {seed} {number}"])
        day = None if chance.random() < 0.1 else str(FIRST + timedelta(chance.randrange(700)))
        words = " ".join(chance.choices(["red", "blue", "green", "large"], k=3))
        texts.append(with_cells(words, (price, channel, day)))
        labels.append("b" if (price is not None and int(price) > 50) != (channel == "chat") else "a")
    return texts, labels


def cells(texts: list[Text], place: int) -> list[str | None]:
    return [text.cells[place] for text in texts]  # type: ignore[union-attr]


def direct_columns(train: list[Text], texts: list[Text]) -> Any:
    """Return the features of columns as one would write them by hand."""
    parts = []
    for place in (0, 2):
        known, asked = (
            np.array([
                np.nan if not cell else float(cell) if place == 0 else date.fromisoformat(cell).toordinal()
                for cell in cells(of, place)
            ])
            for of in (train, texts)
        )  # fmt: skip
        missing = np.isnan(asked)
        scaled = (np.clip(asked, np.nanmin(known), np.nanmax(known)) - np.nanmean(known)) / np.nanstd(known)
        parts += [np.where(missing, 0, scaled), missing]
    for part in (date.weekday, lambda day: day.month):
        known_days, days = (
            [["missing" if not cell else str(part(date.fromisoformat(cell)))] for cell in cells(of, 2)]
            for of in (train, texts)
        )
        parts += [*OneHotEncoder(handle_unknown="ignore").fit(known_days).transform(days).toarray().T]
    known_values, values = ([[one or "missing"] for one in cells(of, 1)] for of in (train, texts))
    parts += [*OneHotEncoder(handle_unknown="ignore").fit(known_values).transform(values).toarray().T]
    return csr_matrix(np.stack(parts, axis=1).astype(np.float32))


def test_the_linear_one_is_scikit_learns_regression_over_both() -> None:
    texts, labels = rows(300, 0)
    others, _ = rows(200, 1)
    kind = column_baselines(KINDS)["tf-idf+columns"]
    words = TfidfVectorizer(ngram_range=(1, 2), token_pattern=r"\w+", sublinear_tf=True, dtype=np.float32).fit(texts)
    direct = LogisticRegression(C=1.0, max_iter=1000)
    direct.fit(hstack([words.transform(texts), direct_columns(texts, texts)]), labels)
    found = next(kind.fit(Classification, texts, labels, seed=0))
    expected = direct.predict(hstack([words.transform(others), direct_columns(texts, others)])).tolist()
    agree = np.mean([one == other for one, other in zip(found.predict(others), expected, strict=True)])
    assert agree >= 0.99  # a day's missing indicator stands thrice in ours, so that it is penalized less
    assert found.options["features"] == "word"
    assert found.size() > 0


def test_trees_read_the_dimensions_and_the_columns() -> None:
    texts, labels = rows(600, 0)
    others, truth = rows(300, 1)
    kind = column_baselines(KINDS)["trees+columns"]
    fits = list(kind.fit(Classification, texts, labels, seed=0))
    assert {one.options["iterations"] for one in fits} == {25, 50, 100, 200, 400}
    best = max(fits, key=lambda one: sum(map(str.__eq__, one.predict(others), truth)))
    assert np.mean([one == other for one, other in zip(best.predict(others), truth, strict=True)]) > 0.9
    again = next(kind.fit(Classification, texts, labels, seed=0, only=(best.options,)))
    assert again.predict(others) == best.predict(others)
    alone = [with_cells(text, (None, None, None)) for text in others]
    assert np.mean([one == other for one, other in zip(best.predict(alone), truth, strict=True)]) < 0.8


def test_trees_after_some_iterations_are_those_of_a_shorter_fit() -> None:
    texts, labels = rows(200, 0)
    encode = with_columns._Reduced(KINDS, 0)
    dimensions, columns = encode.fit_transform(texts)
    features = np.concatenate([dimensions, columns], axis=1)
    categories = [False] * dimensions.shape[1] + encode.categories
    direct = HistGradientBoostingClassifier(
        max_iter=25, early_stopping=False, random_state=0, categorical_features=categories
    )
    direct.fit(features, labels)
    found = next(column_baselines(KINDS)["trees+columns"].fit(Classification, texts, labels, seed=0))
    assert found.predict(texts) == direct.predict(features).tolist()


@pytest.mark.parametrize("name", with_columns.WITH_COLUMNS)
def test_other_tasks(name: str) -> None:
    texts, labels = rows(300, 0)
    kind = column_baselines(KINDS)[name]
    sets = [("all", label) if label == "b" else ("all",) for label in labels]
    fit = list(kind.fit(MultiLabel, texts, sets, seed=0))[-1]
    answers = fit.predict(texts)
    assert np.mean([set(one or ()) == set(other) for one, other in zip(answers, sets, strict=True)]) > 0.7
    numbers = [float(cell or -10) for cell in cells(texts, 0)]
    fit = list(kind.fit(Regression, texts, numbers, seed=0))[-1]
    assert np.corrcoef(fit.predict(texts), numbers)[0, 1] > 0.9


def test_many_labels_are_no_task_of_trees() -> None:
    texts, _ = rows(500, 0)
    with pytest.raises(DataError, match="500 labels need as many trees"):
        next(column_baselines(KINDS)["trees+columns"].fit(Classification, texts, [f"l{i}" for i in range(500)], seed=0))


def test_systems_that_read_columns_need_some() -> None:
    assert chosen_systems(Classification, (), columns=True)[:2] == with_columns.WITH_COLUMNS
    with pytest.raises(ConfigError, match=r"trees\+columns reads columns beside the text; name them with --features"):
        chosen_systems(Classification, ["trees+columns"])


def test_a_comparison_with_columns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(with_columns, "is_installed", lambda package: False)
    for number, (name, count) in enumerate({"train": 120, "dev": 40, "test": 120}.items()):
        texts, labels = rows(count, number)
        lines = ["text,price,channel,day,label"]
        for text, label in zip(texts, labels, strict=True):
            lines.append(",".join([text, *(cell or "" for cell in text.cells), label]))  # type: ignore[arg-type, union-attr]
        (tmp_path / f"{name}.csv").write_text("\n".join(lines) + "\n", "utf-8")
    columns = {"features": ["price", "channel", "day"]}
    data = {"train": [str(tmp_path / "train.csv")], "validation": [str(tmp_path / "dev.csv")], "columns": columns}
    model = {"preset": "pnlp-mixer-x-small", "dim": 8, "num_layers": 1, "text": {"max_len": 8}}
    values = {"data": data, "task": "classification", "model": model, "train": {"epochs": 2}}
    found = compare(
        resolve({}, spec=LABELS, overrides=values), test=[str(tmp_path / "test.csv")], seeds=(0,),
        systems=("tf-idf", "tf-idf+columns", "trees+columns"), folder=tmp_path / "out", log=lambda line: None,
        callback=Callback,
    )  # fmt: skip
    assert [one.name for one in found.systems] == ["mixling", "tf-idf + lr", "tf-idf and columns + lr"]
    assert found.test["tf-idf and columns + lr"].mean > found.test["tf-idf + lr"].mean + 0.1
    (failed,) = found.failed
    assert (failed.name, failed.reason[:14]) == ("tf-idf and columns + trees", "not installed;")
    assert "The columns beside the texts are not read by tf-idf + lr." in found.remarks
