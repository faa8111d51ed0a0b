"""Sets that were read as one label, and equal texts with different labels."""

import pytest

from mixling.data import Dataset, Example, conflict_line, conflicting
from mixling.data.label_remarks import label_remarks


def dataset(targets, texts=None):
    texts = texts or [f"text {i}" for i in range(len(targets))]
    pairs = zip(texts, targets, strict=True)
    return Dataset.from_examples(Example(text, target, "a.csv", i) for i, (text, target) in enumerate(pairs))


@pytest.mark.parametrize(
    ("delimiter", "quoted"),
    [(",", ","), (";", "';'"), ("/", "/"), ("\t", "'\\t'"), ("\n", "'\\n'"), ("&", "'&'"), ("#", "'#'"), ("|", "")],
)
def test_joined_labels_are_mentioned_with_the_option_that_divides_them(delimiter, quoted):
    option = f"--set data.columns.label_delimiter={quoted}" if quoted else ""
    labels = ["billing", f"delivery{delimiter} urgent", f"billing{delimiter} urgent", "delivery"]
    [line] = label_remarks(dataset(labels), several=False)
    assert line.startswith("2 labels look like several that are joined by '")
    assert f": {f'--task multi_label {option}'.strip()} divides them" in line
    if option:
        [line] = label_remarks(dataset([(label,) for label in labels]), several=True)
        assert line.endswith(f": {option} divides them")
    [line] = label_remarks(dataset(labels), several=False, in_python=True)
    assert "for part in label.split('" in line
    assert "--" not in line


@pytest.mark.parametrize(
    "labels",
    [["Health, Beauty", "Home, Garden", "Books"], ["1,5", "2,5", "1", "2", "5"], ["1/5", "5/5", "1"],
     ["sports/football", "sports/tennis", "news/politics"], ["TCP/IP", "N/A"], [",a", ",b", "a", "b"],
     ["C", "C#", "F#"]],
)  # fmt: skip
def test_names_with_commas_are_names(labels):
    assert label_remarks(dataset(labels), several=False) == []


def test_blanks_divide_labels_only_if_sets_of_labels_are_asked_for():
    labels = ["billing", "delivery urgent", "billing urgent", "delivery"]
    assert label_remarks(dataset(labels), several=False) == []
    [line] = label_remarks(dataset([(label,) for label in labels]), several=True)
    assert line.endswith(": --set data.columns.label_delimiter=' ' divides them")
    names = ["credit card", "lost card", "login"]
    assert label_remarks(dataset([(label,) for label in names]), several=True) == []


def test_tags_are_compared_by_what_they_tag():
    tags = [("B-city", "I-city", "O"), ("B-City", "O", "O")]
    [line] = label_remarks(dataset(tags, [["a", "b", "c"]] * 2), several=False)
    assert line == "labels that differ only in case: city, City (2, 1 examples)"


def test_equal_texts_with_different_labels_are_counted():
    data = dataset(["x", "y", "x", "x", "z"], ["A  text", "a text", "another", "another", "a\ntext"])
    assert conflicting(data) == ((0, 1, 4),)
    assert conflict_line(data) == "1 text occurs with different labels (3 examples)"
    assert conflict_line(dataset(["x", "y"])) == ""
    accents = ["Café ΣΑΣ İ\u212a", "cafe\u0301  σας i\u0307k"]
    assert conflicting(dataset(["x", "y"], accents)) == ((0, 1),)
    sets = dataset([("x", "y"), ("y", "x"), ("x",)], ["a", "A", "b"])
    assert conflicting(sets) == ()
    pairs = dataset(["x", "y", "y"], [("a b", "c"), ("a", "b c"), ("A B", "C")])
    assert conflicting(pairs) == ((0, 2),)
