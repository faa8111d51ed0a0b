"""Label sets, and the spans of tags."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from seqeval.metrics.sequence_labeling import get_entities

from mixling import DataError, ModelFileError
from mixling.answers import LabelSet
from mixling.answers.labels import iob_spans

SINGLE = LabelSet(("bad", "fair", "good"), "single")
MULTI = LabelSet(("comedy", "drama", "war"), "multi")
IOB = LabelSet(("O", "B-city", "B-day", "I-city", "I-day"), "iob")
TAGS = st.lists(st.sampled_from(["O", *(f"{p}-{t}" for p in "BI" for t in ("x", "y", "x-y", "-", "é"))]))


def test_labels_are_sorted_by_code_point() -> None:
    assert LabelSet.from_labels(iter(["b", "a", "É", "B", "a"]), "single").names == ("B", "a", "b", "É")


def test_integers_are_sorted_by_value() -> None:
    assert LabelSet.from_labels(["10", "9", "-1", "2"], "single").names == ("-1", "2", "9", "10")
    assert LabelSet.from_labels(["10", "9", "x"], "single").names == ("10", "9", "x")


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (("a", "b", "a"), "'a' occurs twice"),
        ((), "no labels"),
        (("a", " "), "' ' is empty"),
        (("a", 1), "1 is of type int"),
        (("a", "\ud800"), "surrogate"),
    ],
)
def test_what_is_no_label_set_is_refused(names: tuple[str, ...], message: str) -> None:
    with pytest.raises(DataError, match=message):
        LabelSet(names, "single")


@pytest.mark.parametrize("number", [float("nan"), float("inf"), True, "1"])
def test_numbers_of_a_label_set_are_finite(number: object) -> None:
    with pytest.raises(DataError, match=r"mean is .*; a finite number is needed"):
        LabelSet(("a",), "x", {"mean": number})  # type: ignore[dict-item]


def test_labels_of_a_wrong_type_are_refused_before_they_are_sorted() -> None:
    with pytest.raises(DataError, match="is of type int"):
        LabelSet.from_labels(["a", 1], "single")  # type: ignore[list-item]


def test_ids_are_positions_and_an_unknown_name_is_reported_with_its_near_miss() -> None:
    assert [SINGLE.id(name) for name in SINGLE.names] == [0, 1, 2]
    ids = SINGLE.ids(["good", "bad", "good"])
    assert ids.dtype == np.int64
    assert ids.tolist() == [2, 0, 2]
    assert SINGLE.ids([]).shape == (0,)
    with pytest.raises(DataError, match="unknown label 'goood'; did you mean 'good'"):
        SINGLE.ids(["bad", "goood"])


@pytest.mark.parametrize(
    "labels", [SINGLE, MULTI, IOB, LabelSet(("中", "\U0001f600"), "single"), LabelSet(("a",), "x", {"m": 0.5})]
)
def test_a_label_set_survives_json(labels: LabelSet) -> None:
    assert LabelSet.from_dict(json.loads(json.dumps(labels.to_dict()))) == labels


@pytest.mark.parametrize(
    "values",
    [
        None,
        [],
        {},
        {"kind": "single"},
        {"kind": "single", "names": "ab"},
        {"kind": "single", "names": ["a", "b"], "more": 1},
        {"kind": "single", "names": ["a", "a"]},
        {"kind": "single", "names": ["a", ["b"]]},
        {"kind": "single", "names": ["a", None]},
        {"kind": ["single"], "names": ["a", "b"]},
        {"kind": "single", "names": ["a", "b"], "numbers": [1]},
        {"kind": "single", "names": ["a", "b"], "numbers": {"mean": None}},
    ],
)
def test_damaged_label_sets_are_one_kind_of_error(values: object) -> None:
    with pytest.raises(ModelFileError, match="labels: "):
        LabelSet.from_dict(values)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("tags", "spans"),
    [
        ("", []),
        ("O O", []),
        ("B-x I-x O", [("x", 0, 2)]),
        ("B-x B-x", [("x", 0, 1), ("x", 1, 2)]),
        ("I-x I-x O I-x", [("x", 0, 2), ("x", 3, 4)]),
        ("B-x I-y I-y", [("x", 0, 1), ("y", 1, 3)]),
    ],
)
def test_spans_by_hand(tags: str, spans: list[tuple[str, int, int]]) -> None:
    assert iob_spans(tags.split()) == spans


@settings(deadline=None, derandomize=True)
@given(TAGS)
def test_spans_are_those_of_seqeval(tags: list[str]) -> None:
    assert iob_spans(tags) == [(kind, first, last + 1) for kind, first, last in get_entities(tags)]


def test_the_file_needs_no_training_packages() -> None:
    code = (
        "import sys, mixling.answers.labels; sys.exit(any(m in sys.modules for m in ('torch', 'sklearn', 'seqeval')))"
    )
    source = Path(__file__).resolve().parents[2] / "src"
    assert subprocess.run([sys.executable, "-c", code], env={"PYTHONPATH": str(source)}).returncode == 0


def test_types_and_columns_are_kept() -> None:
    types = {"1": "integer", "true": "boolean", "10": "number"}
    labels = LabelSet.from_labels(["1", "true", "10", "x", "1"], "single", types={**types, "7": "integer"})
    assert labels.types == types
    again = LabelSet.from_dict(json.loads(json.dumps(labels.to_dict())))
    assert again == labels
    values = [again.value(name) for name in again.names]
    assert values == [1, 10.0, True, "x"]
    assert list(map(type, values)) == [int, float, bool, str]
    matrix = LabelSet.from_labels(["2", "0"], "multi", types=dict.fromkeys("012", "integer"), columns="012")
    assert matrix.to_dict() == {"kind": "multi", "names": ["0", "2"], "types": "integer", "columns": ["0", "1", "2"]}
    assert LabelSet.from_dict(matrix.to_dict()) == matrix
    assert matrix.value("1") == 1


@pytest.mark.parametrize(
    "more",
    [
        {"types": "float"}, {"types": "integer"}, {"types": {"a": "boolean"}}, {"types": {"1": 3}}, {"types": 3},
        {"types": {"1": "integer", "b": "integer"}}, {"columns": "1a"}, {"columns": ["1"]}, {"columns": ["1", "a", 3]},
        {"columns": ["1", "a", "a"]}, {"types": {"1": ["integer"]}},
    ],
)  # fmt: skip
def test_damaged_types_are_refused(more: dict[str, object]) -> None:
    with pytest.raises(ModelFileError, match=r"^label"):
        LabelSet.from_dict({"kind": "single", "names": ["1", "a"], **more})
