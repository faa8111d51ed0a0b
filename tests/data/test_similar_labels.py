"""Labels that a person reads as the same."""

import unicodedata

import pytest

from mixling.data import with_escapes
from mixling.data.similar_labels import similar_labels

EQUAL = [
    ("case", ["billing", "BILLING", "Billing"]),
    ("case", ["вор", "ВОР"]),
    ("white space", ["credit card", "credit  card"]),
    ("white space", ["credit card", "credit\N{NO-BREAK SPACE}card"]),
    ("white space", ["Health/Beauty", "Health / Beauty"]),
    ("invisible characters", ["billing", "bill\N{ZERO WIDTH SPACE}ing"]),
    ("invisible characters", ["billing", "bill\N{SOFT HYPHEN}ing", "\N{ZERO WIDTH NO-BREAK SPACE}billing"]),
    ("invisible characters", ["billing", "\N{RIGHT-TO-LEFT MARK}billing", "billing\x07"]),
    ("the Unicode form", ["café", unicodedata.normalize("NFD", "café")]),
    ("the width or style", ["ABC", "ＡＢＣ"]),
    ("letters of another alphabet", ["billing", "b\N{CYRILLIC SMALL LETTER BYELORUSSIAN-UKRAINIAN I}lling"]),
    ("letters of another alphabet", ["void", "v\N{GREEK SMALL LETTER OMICRON}id"]),
    ("letters of another alphabet", ["ABC", "АВС"]),
    ("signs that look alike", ["AI", "Al", "A1"]),
    ("signs that look alike", ["B0", "BO"]),
    ("dashes", ["up-down", "up–down"]),
    ("quotes", ["yes", '"yes"', "'yes'"]),
    ("& and the word and", ["Health & Beauty", "Health and Beauty"]),
    ("hyphens, underscores and blanks", ["credit card", "credit_card", "credit-card", "creditcard"]),
    ("punctuation at the end", ["yes", "yes."]),
    ("case", ["istanbul", "İstanbul"]),
    ("ß and ss", ["Maße", "Masse"]),
    ("case and ß and ss", ["Straße", "STRASSE"]),
    ("quotes or brackets", ["billing", "[billing]", "(billing)"]),
    ("hyphens, underscores and blanks", ["billing", "_billing", "billing_"]),
    ("+ or 0 in front of a number", ["1", "+1", "01"]),
    (".0 at the end", ["1", "1.0"]),
]
DIFFERENT = [
    ["yes", "no"], ["C", "C++", "C#"], ["-1", "1"], ["1", "10", "0.1"], ["1-2", "12"], ["bit", "blt"], ["café", "cafe"],
    ["0", "00:1"], ["A", "A-", "A+"], ["1.1", "1.10"], [":)", ":("], ["positive", "negative"],
]  # fmt: skip


@pytest.mark.parametrize(("difference", "names"), EQUAL)
def test_look_alikes_are_one_line_that_says_how_they_differ(difference, names):
    counts = {name: 100 - index for index, name in enumerate(names)}
    [line] = similar_labels({"delivery": 200, **counts})
    assert line.startswith(f"labels that differ only in {difference}")
    assert line.isprintable()
    assert "delivery" not in line
    assert line.endswith(f"({', '.join(str(count) for count in counts.values())} examples)")
    shown = [with_escapes(name, foreign="alphabet" in difference) for name in names]
    assert len(set(shown)) == len(names)
    assert all(name in line for name in shown)


@pytest.mark.parametrize("names", DIFFERENT)
def test_other_labels_are_not_mentioned(names):
    assert similar_labels(dict.fromkeys(names, 3)) == []


def test_the_lines_are_as_documented():
    counts = {"BILLING": 2, "billing": 3, "Billing": 1, "login": 2, "Login": 2, "a b": 1, "a\xa0b": 2}
    assert similar_labels(counts) == [
        "labels that differ only in case: billing, BILLING, Billing (3, 2, 1 examples); Login, login (2, 2 examples)",
        "labels that differ only in white space: 'a\\xa0b', 'a b' (2, 1 examples)",
    ]


def test_labels_that_differ_in_several_ways():
    [line] = similar_labels({"Credit Card": 3, "credit_card": 2, "credit card\u200b": 1})
    assert line == (
        "labels that differ only in invisible characters and case and hyphens, underscores and blanks: "
        "'Credit Card', 'credit_card', 'credit card\\u200b' (3, 2, 1 examples)"
    )


def test_many_groups_are_one_short_line():
    names = [f"label {i}" for i in range(50)] + [f"Label {i}" for i in range(50)]
    [line] = similar_labels(dict.fromkeys(names, 1))
    assert line.endswith("; and 45 more groups")


def test_what_cannot_be_seen_is_escaped():
    assert with_escapes("ячейка") == "ячейка"
    assert with_escapes("日本 語") == "日本 語"
    assert with_escapes("a\u200bb\t") == "a\\u200bb\\t"
    assert with_escapes("p\N{CYRILLIC SMALL LETTER A}y") == "p\\u0430y"
