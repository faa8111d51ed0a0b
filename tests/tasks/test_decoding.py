"""Labels of a task, and the decoding of logits to predictions."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mixling import DataError, ModelFileError, Prediction
from mixling.answers import LabelSet
from mixling.tasks import Classification, MultiLabel, Tagging, Task
from mixling.text import Encoded

SINGLE = Classification(LabelSet(("bad", "fair", "good"), "single"))
MULTI = MultiLabel(LabelSet(("comedy", "drama", "war"), "multi"))
IOB = Tagging(LabelSet(("O", "B-city", "B-day", "I-city", "I-day"), "iob"))


def encoded(*, truncated: bool = False, offsets: Any = None) -> Encoded:
    return Encoded(np.arange(3, dtype=np.int32), None if offsets is None else offsets.tolist(), truncated, 0)


def one(task: Task, logits: npt.NDArray, truncated: bool) -> Prediction:
    return task.decode(logits, encoded(truncated=truncated), "a text")


def many(task: Task, logits: Iterable[npt.NDArray], truncated: Iterable[bool]) -> list[Prediction]:
    read = [encoded(truncated=flag) for flag in truncated]
    return task.decode_many(list(logits), read, ["a text"] * len(read))


def tagged(logits: npt.NDArray, tokens: list[str], offsets: npt.NDArray) -> Prediction:
    return IOB.decode(logits, encoded(offsets=offsets), tokens)


def test_tags_start_with_o_and_each_slot_has_both_prefixes() -> None:
    assert Tagging.tags(["B-a", "O", "B-A"]).names == ("O", "B-A", "B-a", "I-A", "I-a")
    assert Tagging.tags(["I-a"]).names == ("O", "B-a", "I-a")


@pytest.mark.parametrize(
    ("kind", "names", "message"),
    [
        (Classification, ("a",), "every text has the same label, 'a'"),
        (Tagging, ("O",), "every token is tagged 'O'"),
        (Tagging, ("B-a", "O"), "must be 'O'"),
        *((Tagging, ("O", tag), f"{tag!r} is not an IOB tag") for tag in ("o", "B", "B-", "B- ", "S-a", "Ba", "b-a")),
    ],
)
def test_labels_that_are_none_of_a_task_are_refused(kind: type[Task], names: tuple[str, ...], message: str) -> None:
    with pytest.raises(DataError, match=message):
        kind(LabelSet(names, kind.kind))


def test_one_label_is_enough_for_multi() -> None:
    assert len(MultiLabel(LabelSet(("spam",), "multi")).labels) == 1


LOGITS = st.lists(st.floats(-800, 800, width=32), min_size=3, max_size=3)


@settings(deadline=None, derandomize=True)
@given(LOGITS)
def test_softmax_is_its_definition(logits: list[float]) -> None:
    # Written with differences, so that no exponential of the definition overflows to infinity / infinity.
    expected = [1 / sum(math.exp(min(other - value, 709)) for other in logits) for value in logits]
    for kind_of in (SINGLE.probabilities(np.float32(logits)), _values(one(SINGLE, np.float32(logits), False))):
        np.testing.assert_allclose(kind_of, expected, rtol=1e-12, atol=1e-300)


@settings(deadline=None, derandomize=True)
@given(LOGITS)
def test_sigmoid_is_its_definition(logits: list[float]) -> None:
    expected = [1 / (1 + math.exp(min(-value, 709))) for value in logits]
    for kind_of in (MULTI.probabilities(np.float32(logits)), _values(one(MULTI, np.float32(logits), False))):
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
@pytest.mark.parametrize("task", [SINGLE, MULTI])
def test_logits_that_are_not_finite_are_refused(task: Task, bad: float) -> None:
    for location in range(3):
        logits = np.zeros(3, dtype=np.float32)
        logits[location] = bad
        with pytest.raises(ModelFileError, match="not finite"):
            one(task, logits, False)
        with pytest.raises(ModelFileError, match="not finite"):
            many(task, logits[None], [False])


def test_logits_of_another_number_of_classes_are_a_problem() -> None:
    with pytest.raises(AssertionError):
        one(SINGLE, np.zeros(4), False)
    with pytest.raises(AssertionError):
        many(SINGLE, np.zeros((1, 4)), [False])
    with pytest.raises(ValueError, match="zip"):
        many(SINGLE, np.zeros((2, 3)), [False])


def test_a_text_gets_its_most_probable_class() -> None:
    prediction = one(SINGLE, np.log(np.float32([0.2, 0.5, 0.3])), True)
    assert prediction.label == "fair"
    assert prediction.truncated is True
    assert prediction.probabilities == pytest.approx({"bad": 0.2, "fair": 0.5, "good": 0.3}, rel=1e-6)
    assert (prediction.labels, prediction.spans, prediction.tokens, prediction.tags) == (None, None, None, None)


def test_multi_takes_every_class_from_the_threshold_on() -> None:
    logits = np.float32([0.0, -0.1, 3.0])
    assert one(MULTI, logits, False).labels == ("comedy", "war")
    strict = MultiLabel(MULTI.labels)
    strict.threshold = 0.9
    assert one(strict, logits, False).labels == ("war",)
    assert one(MULTI, logits - 9, False).labels == ()
    assert one(MULTI, logits, False).label is None


@pytest.mark.parametrize("task", [SINGLE, MULTI])
def test_a_batch_states_what_its_texts_state_alone(task: Task) -> None:
    logits = (np.random.default_rng(0).normal(size=(50, 3)) * 4).astype(np.float32)
    logits[0] = 1.0  # a tie goes to the first class in both
    truncated = [index % 3 == 0 for index in range(50)]
    batch = many(task, logits, truncated)
    for row, flag, got in zip(logits, truncated, batch, strict=True):
        alone = one(task, row, flag)
        assert (got.label, got.labels, got.truncated) == (alone.label, alone.labels, alone.truncated)
        assert got.probabilities == pytest.approx(alone.probabilities, rel=1e-12)
    assert many(task, np.zeros((0, 3), dtype=np.float32), []) == []


def test_predictions_are_json_of_plain_values() -> None:
    logits = np.random.default_rng(0).normal(size=(2, 3)).astype(np.float32)
    for prediction in (*many(SINGLE, logits, [True, False]), one(MULTI, logits[0], False)):
        values = prediction.to_dict()
        assert json.loads(json.dumps(values)) == values
        assert type(prediction.truncated) is bool
        assert set(values) == {"label" if prediction.label else "labels", "probabilities", "truncated"}


def test_tokens_get_tags_and_character_spans() -> None:
    #         0123456789012345678901
    tokens = ["to", "New", "York", "on", "Monday"]
    offsets = np.array([[0, 2], [3, 6], [7, 11], [12, 14], [15, 21]])
    tags = ["O", "B-city", "I-city", "O", "B-day"]
    top = [0.9, 0.8, 0.6, 0.9, 0.7]
    probabilities = np.array(
        [[p if IOB.labels.names[c] == tag else (1 - p) / 4 for c in range(5)] for tag, p in zip(tags, top, strict=True)]
    )
    prediction = tagged(np.log(probabilities), tokens, offsets)
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
    prediction = tagged(np.zeros((0, 5)), [], np.zeros((0, 2), dtype=int))
    assert (prediction.spans, prediction.tokens, prediction.tags) == ((), (), ())


def test_every_token_needs_its_offsets() -> None:
    with pytest.raises(AssertionError):
        tagged(np.zeros((2, 5)), ["one"], np.array([[0, 1], [2, 3]]))
