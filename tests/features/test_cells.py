"""What a cell holds: numbers and dates as people write them, categories, and missing values."""

from __future__ import annotations

import datetime
import math
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from mixling.answers import LabelSet
from mixling.data import fragments, split_sentences
from mixling.errors import DataError
from mixling.features import as_cell, cells_in, cells_of, with_cells
from mixling.features.kind import has_no_value
from mixling.native import _core
from mixling.tasks import Classification
from mixling.teachers import collect_predictions
from mixling.text import NoiseLevel, mixed_noise, noisy_texts


@pytest.mark.parametrize(
    ("cell", "value"),
    [
        ("1,234.50", 1234.5), ("1.234,50", 1234.5), ("$5", 5), ("-$5", -5), ("€ 5", 5), ("5 EUR", 5), ("7 %", 7),
        ("(12)", -12), ("−5", -5), ("1'234", 1234), ("1 234,5", 1234.5), ("1,00,000", 100000), ("0,123", 0.123),
        ("1,5", 1.5), ("1,234", 1234), ("1.234", 1.234), ("1.234.567", 1234567), (" 3 ", 3), ("inf", math.inf),
        ("-Infinity", -math.inf), ("1e400", math.inf),
    ],
)  # fmt: skip
def test_numbers_as_people_write_them(cell: str, value: float) -> None:
    assert _core.number(cell) == pytest.approx(value, rel=1e-15)


@pytest.mark.parametrize("cell", ["abc", "5kg", "--5", "1.2.3", "12-3", "0x10", "½", "1,2,3", "5 6 x", "$", "%", "."])
def test_what_is_no_number(cell: str) -> None:
    assert _core.number(cell) is None


def test_numbers_of_python_are_read_as_python_reads_them() -> None:
    rng = np.random.default_rng(0)
    for value in [*(rng.normal(size=500) * 10.0 ** rng.integers(-12, 12, 500)).tolist(), 1e22, 123456789012345678]:
        assert _core.number(repr(value)) == pytest.approx(float(repr(value)), rel=1e-15)


def test_dates_of_each_day_are_days_since_1970() -> None:
    for days in range(-40_000, 60_000, 97):
        day = datetime.date(1970, 1, 1) + datetime.timedelta(days)
        for written in (
            day.isoformat(), f"{day}T23:59:59.5-05:00", f"{day} 10:00", f"{day:%d.%m.%Y}", f"{day:%Y/%m/%d}",
            f"{day.day} {day:%B} {day.year}", f"{day:%b} {day.day}, {day.year}", f"{day:%a, %d %b %Y} 10:00:00 GMT",
        ):  # fmt: skip
            assert _core.date(written, False) is not None, written
            assert _core.date(written, False)[0] == days, written  # type: ignore[index]


@pytest.mark.parametrize("cell", ["2024-02-30", "2023-02-29", "2024-13-01", "May", "12", "2024-03-01 soon", "1.2.3.4"])
def test_what_is_no_date(cell: str) -> None:
    assert _core.date(cell, False) is None


def test_the_order_of_day_and_month() -> None:
    def day(cell: str, *, first: bool) -> datetime.date:
        found = _core.date(cell, first)
        assert found
        return datetime.date(1970, 1, 1) + datetime.timedelta(found[0])

    assert day("03/01/2024", first=False) == datetime.date(2024, 3, 1)
    assert day("03/01/2024", first=True) == datetime.date(2024, 1, 3)
    assert day("31/01/2024", first=False) == datetime.date(2024, 1, 31)  # there is one reading
    assert day("01.03.24", first=False) == datetime.date(2024, 3, 1)


@pytest.mark.parametrize(
    "cell", [None, "", "  ", "NA", "n/a", "nan", "NaN", "None", "NULL", "NaT", "<NA>", "-", "\u00a0"]
)
def test_missing_values(cell: str | None) -> None:
    assert has_no_value(cell)
    assert cell is None or math.isnan(_core.number(cell))  # type: ignore[arg-type]


def test_values_of_python_as_cells() -> None:
    values = [None, "a", 3, 3.0, 2.5, float("nan"), True, np.float32(2), np.int64(4), datetime.date(2024, 3, 1)]
    assert [as_cell(value) for value in values] == [None, "a", "3", "3", "2.5", None, "true", "2", "4", "2024-03-01"]
    pandas = pytest.importorskip("pandas")
    assert [as_cell(value) for value in (pandas.NA, pandas.NaT)] == [None, None]
    assert as_cell(pandas.Timestamp("2024-03-01 10:00")) == "2024-03-01T10:00:00"
    assert as_cell(float("inf")) == "inf"
    with pytest.raises(DataError, match=r"column 'a' is of type list: \[1\]"):
        cells_in({"a": [1]}, ["a"])
    with pytest.raises(DataError, match="no column 'price'; did you mean 'prise'"):
        cells_in({"prise": 1}, ["price"])


def test_a_text_with_cells_is_the_text() -> None:
    text = with_cells("hello", ("1", None))
    assert text == "hello"
    assert cells_of(text) == ("1", None)
    assert cells_of("hello") is None
    assert cells_of(with_cells(("a", "b"), ("2",))) == ("2",)


def test_changed_texts_keep_their_cells() -> None:
    text = with_cells("One two three four. Five six seven eight nine.", ("1", None))
    pair = with_cells(("one two", "three"), ("1", None))
    level = NoiseLevel("swap", 1.0)
    changed = [*noisy_texts([text, pair], level), *mixed_noise([text], ["swap"], 1.0)]
    changed += [*fragments([text], 3), *split_sentences(text)]
    assert len(changed) > 5
    assert {cells_of(one) for one in changed} == {("1", None)}


def test_stored_answers_of_a_teacher_are_of_texts_and_cells(tmp_path: Path) -> None:
    class Teacher:
        key = "teacher"

        def predict(self, texts: Sequence[Any], task: Any) -> list[Any]:
            return [np.float32([0.9, 0.1] if cells_of(text) == ("1",) else [0.1, 0.9]) for text in texts]

    task = Classification(LabelSet(("a", "b"), "single"))
    ask = partial(collect_predictions, cast(Any, Teacher()), task=task, folder=tmp_path)
    assert [ask([with_cells("text", (cell,))])[0].argmax() for cell in ("1", "2", "1")] == [0, 1, 0]
