"""Label sets, and the decoding of logits to predictions."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from seqeval.metrics.sequence_labeling import get_entities

from mixling.errors import DataError, ModelFileError
from mixling.text.labels import LabelSet, iob_spans
from mixling.text.predictions import Prediction, Span

SINGLE = LabelSet(("bad", "fair", "good"), "single")
MULTI = LabelSet(("comedy", "drama", "war"), "multi")
IOB = LabelSet(("O", "B-city", "B-day", "I-city", "I-day"), "iob")
TAGS = st.lists(st.sampled_from(["O", *(f"{p}-{t}" for p in "BI" for t in ("x", "y", "x-y", "-", "é"))]))


def test_labels_are_sorted_by_code_point() -> None:
    assert LabelSet.from_labels(iter(["b", "a", "É", "B", "a"]), "single").names == ("B", "a", "b", "É")


def test_integers_are_sorted_by_value() -> None:
    assert LabelSet.from_labels(["10", "9", "-1", "2"], "single").names == ("-1", "2", "9", "10")
    assert LabelSet.from_labels(["10", "9", "x"], "single").names == ("10", "9", "x")


def test_iob_starts_with_o_also_where_the_data_has_none() -> None:
    assert LabelSet.from_labels(["B-a", "O", "I-a", "B-A"], "iob").names == ("O", "B-A", "B-a", "I-a")
    assert LabelSet.from_labels(["B-a"], "iob").names == ("O", "B-a")


@pytest.mark.parametrize(
    ("names", "kind", "message"),
    [
        (("a", "b", "a"), "single", "'a' stands twice"),
        (("a",), "single", "every text has the same label, 'a'"),
        ((), "single", "no labels"),
        ((), "multi", "no labels"),
        (("a", " "), "single", "' ' is empty"),
        (("a", 1), "single", "1 is of type int"),
        (("a", "\ud800"), "single", "surrogate"),
        (("a", "b"), "mulit", "did you mean 'multi'"),
        (("O",), "iob", "every token is tagged 'O'"),
        (("B-a", "O"), "iob", "must be 'O'"),
        *((("O", tag), "iob", f"{tag!r} is not an IOB tag") for tag in ("o", "B", "B-", "B- ", "S-a", "Ba", "b-a")),
    ],
)
def test_what_is_no_label_set_is_refused(names: tuple[str, ...], kind: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        LabelSet(names, kind)  # type: ignore[arg-type]


def test_one_label_is_enough_for_multi() -> None:
    assert len(LabelSet(("spam",), "multi")) == 1


def test_labels_of_a_wrong_type_are_refused_before_they_are_sorted() -> None:
    with pytest.raises(DataError, match="is of type int"):
        LabelSet.from_labels(["a", 1], "single")  # type: ignore[list-item]


def test_ids_are_places_and_an_unknown_name_is_told_with_its_near_miss() -> None:
    assert [SINGLE.id(name) for name in SINGLE.names] == [0, 1, 2]
    ids = SINGLE.ids(["good", "bad", "good"])
    assert ids.dtype == np.int64
    assert ids.tolist() == [2, 0, 2]
    assert SINGLE.ids([]).shape == (0,)
    with pytest.raises(DataError, match="unknown label 'goood'; did you mean 'good'"):
        SINGLE.ids(["bad", "goood"])


@pytest.mark.parametrize("labels", [SINGLE, MULTI, IOB, LabelSet(("中", "\U0001f600"), "single")])
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
        {"kind": "other", "names": ["a", "b"]},
    ],
)
def test_damaged_label_sets_are_one_kind_of_error(values: object) -> None:
    with pytest.raises(ModelFileError, match="labels: "):
        LabelSet.from_dict(values)  # type: ignore[arg-type]


LOGITS = st.lists(st.floats(-800, 800, width=32), min_size=3, max_size=3)


@settings(deadline=None, derandomize=True)
@given(LOGITS)
def test_softmax_is_its_definition(logits: list[float]) -> None:
    # Written with differences, so that no exponential of the definition overflows to infinity / infinity.
    expected = [1 / sum(math.exp(min(other - value, 709)) for other in logits) for value in logits]
    for kind_of in (SINGLE.probabilities(np.float32(logits)), _values(SINGLE.decode_text(np.float32(logits), False))):
        np.testing.assert_allclose(kind_of, expected, rtol=1e-12, atol=1e-300)


@settings(deadline=None, derandomize=True)
@given(LOGITS)
def test_sigmoid_is_its_definition(logits: list[float]) -> None:
    expected = [1 / (1 + math.exp(min(-value, 709))) for value in logits]
    for kind_of in (MULTI.probabilities(np.float32(logits)), _values(MULTI.decode_text(np.float32(logits), False))):
        np.testing.assert_allclose(kind_of, expected, rtol=1e-12, atol=1e-300)


def _values(prediction: Prediction) -> list[float]:
    assert prediction.probabilities is not None
    return list(prediction.probabilities.values())


def test_probabilities_take_any_leading_shape() -> None:
    logits = np.random.default_rng(0).normal(size=(2, 4, 5))
    probabilities = IOB.probabilities(logits)
    assert probabilities.shape == (2, 4, 5)
    np.testing.assert_allclose(probabilities.sum(-1), 1)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("labels", [SINGLE, MULTI])
def test_logits_that_are_not_finite_are_refused(labels: LabelSet, bad: float) -> None:
    for place in range(3):
        logits = np.zeros(3, dtype=np.float32)
        logits[place] = bad
        with pytest.raises(ModelFileError, match="not finite"):
            labels.decode_text(logits, False)
        with pytest.raises(ModelFileError, match="not finite"):
            labels.decode_texts(logits[None], [False])


def test_logits_of_another_number_of_classes_are_a_fault() -> None:
    with pytest.raises(AssertionError):
        SINGLE.decode_text(np.zeros(4), False)
    with pytest.raises(AssertionError):
        SINGLE.decode_texts(np.zeros((1, 4)), [False])
    with pytest.raises(AssertionError):
        SINGLE.decode_texts(np.zeros((2, 3)), [False])


def test_a_text_gets_its_most_probable_class() -> None:
    prediction = SINGLE.decode_text(np.log(np.float32([0.2, 0.5, 0.3])), True)
    assert prediction.label == "fair"
    assert prediction.truncated is True
    assert prediction.probabilities == pytest.approx({"bad": 0.2, "fair": 0.5, "good": 0.3}, rel=1e-6)
    assert (prediction.labels, prediction.spans, prediction.tokens, prediction.tags) == (None, None, None, None)


def test_multi_takes_every_class_from_the_threshold_on() -> None:
    logits = np.float32([0.0, -0.1, 3.0])
    assert MULTI.decode_text(logits, False).labels == ("comedy", "war")
    assert MULTI.decode_text(logits, False, threshold=0.9).labels == ("war",)
    assert MULTI.decode_text(logits - 9, False).labels == ()
    assert MULTI.decode_text(logits, False).label is None
    assert MULTI.decode_texts(np.stack([logits]), [False], threshold=0.9)[0].labels == ("war",)


@pytest.mark.parametrize("labels", [SINGLE, MULTI])
def test_a_batch_says_what_its_texts_say_alone(labels: LabelSet) -> None:
    logits = (np.random.default_rng(0).normal(size=(50, 3)) * 4).astype(np.float32)
    logits[0] = 1.0  # a tie goes to the first class in both
    truncated = [index % 3 == 0 for index in range(50)]
    batch = labels.decode_texts(logits, truncated)
    for row, flag, got in zip(logits, truncated, batch, strict=True):
        alone = labels.decode_text(row, flag)
        assert (got.label, got.labels, got.truncated) == (alone.label, alone.labels, alone.truncated)
        assert got.probabilities == pytest.approx(alone.probabilities, rel=1e-12)
    assert labels.decode_texts(np.zeros((0, 3), dtype=np.float32), []) == []


def test_predictions_are_json_of_plain_values() -> None:
    logits = np.random.default_rng(0).normal(size=(2, 3)).astype(np.float32)
    for prediction in (*SINGLE.decode_texts(logits, np.array([True, False])), MULTI.decode_text(logits[0], np.False_)):
        values = prediction.to_dict()
        assert json.loads(json.dumps(values)) == values
        assert type(prediction.truncated) is bool
        assert set(values) == {"label" if prediction.label else "labels", "probabilities", "truncated"}


def test_tokens_get_tags_and_character_spans() -> None:
    #         0123456789012345678901
    tokens = ["to", "New", "York", "on", "Monday"]
    offsets = np.array([[0, 2], [3, 6], [7, 11], [12, 14], [15, 21]])
    tags = ["O", "B-city", "I-city", "O", "I-day"]
    top = [0.9, 0.8, 0.6, 0.9, 0.7]
    probabilities = np.array(
        [[p if IOB.names[c] == tag else (1 - p) / 4 for c in range(5)] for tag, p in zip(tags, top, strict=True)]
    )
    prediction = IOB.decode_tokens(np.log(probabilities), tokens, offsets, False)
    assert prediction.tags == tuple(tags)
    assert prediction.tokens == tuple(tokens)
    assert prediction.spans is not None
    city, day = prediction.spans
    assert (city.label, city.start, city.end) == ("city", 3, 11)
    assert (day.label, day.start, day.end) == ("day", 15, 21)
    assert (city.score, day.score) == (pytest.approx(0.7), pytest.approx(0.7))
    values = prediction.to_dict()
    assert json.loads(json.dumps(values)) == values
    assert set(values) == {"spans", "tokens", "tags", "truncated"}
    assert set(values["spans"][0]) == {"label", "start", "end", "score"}


def test_a_text_without_tokens_has_no_spans() -> None:
    prediction = IOB.decode_tokens(np.zeros((0, 5)), [], np.zeros((0, 2), dtype=int), False)
    assert (prediction.spans, prediction.tokens, prediction.tags) == ((), (), ())


def test_spans_without_probabilities_have_score_one() -> None:
    offsets = np.array([[0, 1], [2, 3], [4, 5]])
    assert IOB.decode_iob(IOB.ids(["B-day", "B-day", "I-day"]), offsets) == (
        Span("day", 0, 1, 1.0),
        Span("day", 2, 5, 1.0),
    )


def test_every_token_needs_its_offsets() -> None:
    with pytest.raises(AssertionError):
        IOB.decode_iob(np.array([0, 1]), np.array([[0, 1]]))
    with pytest.raises(AssertionError):
        IOB.decode_tokens(np.zeros((2, 5)), ["one"], np.array([[0, 1], [2, 3]]), False)


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
    code = "import sys, mixling.text.labels; sys.exit(any(m in sys.modules for m in ('torch', 'sklearn', 'seqeval')))"
    source = Path(__file__).resolve().parents[2] / "src"
    assert subprocess.run([sys.executable, "-c", code], env={"PYTHONPATH": str(source)}).returncode == 0
