"""Amounts such as $1,274.83 are no labels; what to write instead is said."""

from __future__ import annotations

from pathlib import Path

import pytest

from mixling.data import Dataset, Example, check_labels, guess_columns
from mixling.data.number_codes import plain_number
from mixling.errors import DataError


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("$1,274.83", "1274.83"), ("1776,20 €", "1776.20"), ("91.4%", "91.4"), ("12,5 %", "12.5"), ("-$5", "-5"),
        ("1.234.567,89 EUR", "1234567.89"), ("1 234,50 zł", "1234.50"), ("CHF 12'000.50", "12000.50"), ("−3 £", "-3"),
        ("1,234", "1234"), ("3.141", "3.141"), ("12", "12"),
        ("1,2,3", None), ("1.10.2", None), ("12:30", None), ("2026-01-02", None), ("B2", None), ("$", None), ("", None),
    ],
)  # fmt: skip
def test_the_number_of_an_amount(text: str, number: str | None) -> None:
    assert plain_number(text) == number
    if number is not None:
        float(number)


@pytest.mark.parametrize(
    ("pattern", "plain"), [("${:,.2f}", "{:.2f}"), ("{:.1f}%", "{:.1f}"), ("{:.2f} EUR", "{:.2f}")]
)
def test_many_amounts_are_no_labels(pattern: str, plain: str) -> None:
    values = [1234.5 + 7.25 * row for row in range(60)]
    rows = Dataset.from_examples(
        [Example(f"text {v}", pattern.format(v), "a.csv", 2 + i) for i, v in enumerate(values)]
    )
    with pytest.raises(DataError) as caught:
        check_labels(rows, None)
    first = pattern.format(values[0])
    assert f"all of them amounts ({first}, " in str(caught.value)
    assert f"such as {plain.format(values[0])} for {first}, and use --task regression" in str(caught.value)


def test_the_only_other_column_is_the_label_if_it_has_amounts(tmp_path: Path) -> None:
    for name, form in (("price", "${}.50"), ("rate", "{}.5"), ("id", "{}")):
        (tmp_path / "a.csv").write_text(
            f"review,{name}\n" + "".join(f"some words {i},{form.format(i)}\n" for i in range(40))
        )
        guess = guess_columns(str(tmp_path / "a.csv"))
        assert guess is not None
        assert [column.name for column in guess.label] == ([] if name == "id" else [name])
