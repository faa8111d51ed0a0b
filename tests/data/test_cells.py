"""Lists and objects that are written as text in cells."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mixling.data import read_cell
from mixling.data.cells import MAX_CELL

WORDS = st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=8), min_size=1, max_size=5)


@given(WORDS)
def test_what_json_and_python_write_is_read(words):
    assert read_cell(json.dumps(words)) == words
    assert read_cell(repr(words)) == words
    assert read_cell(repr(tuple(words))) == words


@pytest.mark.parametrize("words", [["a", "it's", 'a "b"'], ["one"], ["x y", "z"], ["long word"] * 40])
def test_what_numpy_writes_is_read(words):
    array = np.array(words, object)
    assert read_cell(str(array)) == words
    assert read_cell(repr(array)) == words
    assert read_cell(str(list(np.array(words)))) == words  # of np.str_, which NumPy 2 shows as such
    assert read_cell(str({"text": array, "answer_start": np.array([3], np.int32)})) == {
        "text": words,
        "answer_start": [3],
    }


@pytest.mark.parametrize(
    ("cell", "value"),
    [
        ("[1, 0, 0]", [1, 0, 0]),
        ("[1. 0. 0.]", [1.0, 0.0, 0.0]),
        ("[ True False]", [True, False]),
        ("{'x'}", ["x"]),
        ("{'x', 'y'}", ["x", "y"]),
        ("[1 0\n 1]", [1, 0, 1]),
        (" [] ", []),
        ('{"billing": 1, "login": 0}', {"billing": 1, "login": 0}),
        ("{'billing': True, 'login': None}", {"billing": True, "login": None}),
        ("deque(['a', 'b'])", ["a", "b"]),
        ("tensor([0, 1])", [0, 1]),
        ("tensor([0, 1], device='cuda:0')", [0, 1]),
        ("Index(['a', 'b'], dtype='object')", ["a", "b"]),
        ("[['a', 'b'], ['c']]", [["a", "b"], ["c"]]),
    ],
)
def test_numbers_and_objects(cell, value):
    assert read_cell(cell) == value


@pytest.mark.parametrize(
    "text",
    [
        "billing", "", "[", "[urgent]", "[a, b]", "(a)", "('a')", "(1)", "{name}", "['a', 'b'", "['a'] and ['b']",
        "[x for x in y]", "[1 2, 3]", "__import__('os')", "[print('a')]", "[" * 5000 + "]" * 5000, "['\\x']",
        "{'a': 1, 'a': 2}", "{'a': 1, 'b'}", "[NaN]",
    ],
)  # fmt: skip
def test_other_text_stays_as_it_is(text):
    assert read_cell(text) == text
    assert read_cell(f"['{'a' * MAX_CELL}']") == f"['{'a' * MAX_CELL}']"


def test_bare_words_are_read_only_where_a_list_must_stand():
    assert read_cell("[a, b c]", bare=True) == ["a", "b c"]
    assert read_cell('{a,"b,c"}', bare=True) == ["a", "b,c"]
    assert read_cell("WrappedArray(a, b)", bare=True) == ["a", "b"]
    assert read_cell("[a, ..., b]", bare=True) == "[a, ..., b]"
    assert read_cell("{}", bare=True) == {}
    assert read_cell("[a,,b]", bare=True) == "[a,,b]"
    assert read_cell("(a, b)", bare=True) == "(a, b)"
    assert read_cell("a, b", bare=True) == "a, b"
