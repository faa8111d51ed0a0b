"""Columns as vectors, against a statement in NumPy; guesses of kinds; remarks about columns."""

from __future__ import annotations

import datetime
import json
from typing import Any

import numpy as np
import pytest

from mixling.errors import ConfigError, DataError
from mixling.features import Cells, Columns, describe_columns, remarks
from mixling.features.kinds import parse_features

DAYS = [f"2024-{month:02}-{day:02}" for month in range(1, 13) for day in (1, 9, 17, 25)]


def _described(*cells: str | None, kind: str | None = None) -> Columns:
    return describe_columns({"c": kind}, [(cell,) for cell in cells])


def test_a_number_counts_for_the_knots_beside_it() -> None:
    rng = np.random.default_rng(0)
    values = rng.lognormal(size=400)
    columns = _described(*map(str, values), None)
    (item,) = columns.items
    knots = np.array(item["knots"])
    asked = [*values[:50], -5.0, 1e9, np.inf, -np.inf, float(knots[3])]
    found = columns.encode([(str(value),) for value in asked])
    held = np.clip(asked, knots[0], knots[-1])
    expected = np.zeros((len(asked), 2 + len(knots)))
    expected[:, 1] = (held - item["mean"]) / item["deviation"]
    for number in range(len(knots)):  # the function that is 1 at this knot, 0 at the others, and linear between
        expected[:, 2 + number] = np.interp(held, knots, np.eye(len(knots))[number])
    np.testing.assert_allclose(found, expected, atol=1e-6)
    np.testing.assert_array_equal(columns.encode([(None,), ("NA",)]), np.eye(1, 2 + len(knots)).repeat(2, 0))


def test_few_numbers_are_the_knots() -> None:
    (item,) = _described("1", "2", "2", "5").items
    assert item["knots"] == [1, 2, 5]
    assert np.isfinite(_described("7", "7", "inf").encode([("7",), ("-inf",)])).all()


def test_a_category_has_its_rare_and_new_values_as_other() -> None:
    columns = _described("Email", "email", "chat", "chat", "fax", None, "3.0", "3", "3")
    assert columns.items == ({"name": "c", "kind": "category", "values": ["3", "chat", "email"]},)
    rows = [(None,), ("fax",), ("never",), ("3",), ("3.0",), ("chat ",), ("EMAIL",)]
    expected = np.eye(5, dtype=np.float32)[[0, 1, 1, 2, 2, 3, 4]]
    np.testing.assert_array_equal(columns.encode(rows), expected)


def test_a_date_has_the_day_of_the_week_and_the_month() -> None:
    columns = _described(*DAYS)
    found = columns.encode([(day,) for day in DAYS])
    for row, written in zip(found, DAYS, strict=True):
        day = datetime.date.fromisoformat(written)
        np.testing.assert_array_equal(row[2:9], np.eye(7)[day.weekday()])
        np.testing.assert_array_equal(row[9:21], np.eye(12)[day.month - 1])
    order = np.argsort(DAYS)
    assert (np.diff(found[order, 1]) > 0).all()


@pytest.mark.parametrize(
    ("cells", "kind"),
    [
        (["1", "2.5", "", "$3"], "number"), (DAYS, "date"), (["31/01/2024", "01/02/2024"], "date"),
        (["a", "1"], "category"), (["20240301", "20240401"], "number"), ([None, ""], "category"),
        (["2024", "2025"], "number"), (["true", "false"], "category"),
    ],
)  # fmt: skip
def test_kinds_are_guessed(cells: list[str | None], kind: str) -> None:
    assert _described(*cells).items[0]["kind"] == kind


def test_days_come_first_where_a_date_shows_it() -> None:
    assert _described("31/01/2024", "03/02/2024").items[0]["day_first"] is True
    assert _described("01/31/2024", "03/02/2024").items[0]["day_first"] is False


def test_a_kind_that_is_given_is_kept_to() -> None:
    assert _described("1", "2", kind="category").items[0]["kind"] == "category"
    with pytest.raises(DataError, match="row 2: column 'c' is not a number: 'two'"):
        _described("1", "two", kind="number")
    with pytest.raises(DataError, match="item 1: column 'c' is not a number: 'x'; leave it empty"):
        _described("1", "2").encode([("1",), ("x",)])


def test_names_with_kinds() -> None:
    names = ["price:number", "a b", " c : date", "d:other"]
    assert parse_features(names) == {"price": "number", "a b": None, "c": "date", "d:other": None}
    with pytest.raises(ConfigError, match="--features: got the column 'a' twice"):
        parse_features(["a", "a:date"])


def test_a_description_is_read_back_or_refused() -> None:
    columns = _described("1", "2", "-3.5")
    assert Columns.parse(columns.description).items == columns.items
    for change in ({"kind": "colour"}, {"knots": [2, 1]}, {"knots": []}, {"deviation": 0}, {"name": ""}, {"mean": "1"}):
        with pytest.raises(ValueError, match="a value that is not allowed"):
            Columns.parse(json.dumps([{**columns.items[0], **change}]))
    with pytest.raises(ValueError, match="not JSON"):
        Columns.parse("[")


def test_columns_that_tell_nothing_or_everything() -> None:
    rows = [("same", label, str(number), "") for number, label in enumerate("abab" * 10)]
    columns = describe_columns(dict.fromkeys(("constant", "leak", "id", "gone")), rows)
    lines = remarks(columns, rows, list("abab" * 10))
    assert lines[0] == "column 'constant' has one value in all rows, so it tells nothing"
    assert lines[1].startswith("column 'leak' tells the target of 100.0% of the rows by itself")
    assert lines[2] == "column 'gone' has one value in all rows, so it tells nothing"
    assert len(lines) == 3


def test_numbers_that_no_square_has_count_as_infinite() -> None:
    rows: list[Cells] = [("1e300",), ("-1e300",), ("1e200",), ("1",), ("2",), ("3",)]
    columns = describe_columns({"size": None}, rows)
    assert columns.items[0]["knots"] == [1, 2, 3]
    assert np.isfinite(columns.encode([*rows, ("1e999",)])).all()
    assert columns.encode([("1e300",)]).tolist() == columns.encode([("3",)]).tolist()


@pytest.mark.parametrize("change", [{"knots": [-1e308, 1e308]}, {"knots": [1e300]}, {"deviation": 1e-320}])
def test_a_description_whose_values_are_no_floats_is_refused(change: dict[str, Any]) -> None:
    item = {"name": "a", "kind": "number", "knots": [0.0, 1e9], "mean": 0.0, "deviation": 1.0}
    assert Columns.parse(json.dumps([item])).width == 4
    with pytest.raises(ValueError, match="a value that is not allowed"):
        Columns.parse(json.dumps([{**item, **change}]))
