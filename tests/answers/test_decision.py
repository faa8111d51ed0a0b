"""Rules of decisions against sums in loops."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mixling import ConfigError
from mixling.answers import DecisionRule, answers_of, offsets_of
from mixling.config import parse

NUMBERS = st.floats(-8, 8, allow_nan=False)


def vectors(size: int) -> st.SearchStrategy[list[float]]:
    return st.lists(NUMBERS, min_size=size, max_size=size)


@given(vectors(4), vectors(4))
def test_offsets_are_added_to_the_logits(logits: list[float], offsets: list[float]) -> None:
    rule = DecisionRule(offsets=tuple(offsets))
    sums = [a + b for a, b in zip(logits, offsets, strict=True)]
    assert rule.answer(logits) == int(rule.answers(np.array(logits))) == sums.index(max(sums))


@given(vectors(3), st.lists(vectors(3), min_size=3, max_size=3))
def test_the_least_expected_cost_is_the_answer(logits: list[float], costs: list[list[float]]) -> None:
    rule = DecisionRule(costs=tuple(map(tuple, costs)))
    total = sum(math.exp(value) for value in logits)
    expected = [sum(math.exp(logits[i]) / total * costs[i][j] for i in range(3)) for j in range(3)]
    for chosen in (rule.answer(logits), int(rule.answers(np.array([logits, logits]))[1])):
        assert expected[chosen] <= min(expected) + 1e-9


@given(vectors(3), vectors(3))
def test_probabilities_are_answered_as_their_logits(logits: list[float], offsets: list[float]) -> None:
    rule = DecisionRule(offsets=tuple(offsets))
    values = np.exp(np.array(logits))
    best = int(answers_of(values / values.sum(), rule))
    assert logits[best] + offsets[best] >= max(a + b for a, b in zip(logits, offsets, strict=True)) - 1e-9


def test_labels_that_a_model_does_not_know_are_never_the_answer() -> None:
    probabilities = np.array([[0.1, 0.9, 0.0], [0.9, 0.1, 0.0]])
    for rule in (DecisionRule(offsets=(-5.0, -1.0)), DecisionRule(costs=((0.0, 9.0), (1.0, 0.0)))):
        wide = rule.of(("a", "b", "new"))
        assert wide.num_labels == 3
        assert answers_of(probabilities, wide).tolist() == answers_of(probabilities[:, :2], rule).tolist()


def test_offsets_of_priors() -> None:
    assert offsets_of(np.array([0.5, 0.25]), 0.0) == (0.0, 0.0)
    assert offsets_of(np.array([0.5, 0.25]), 1.0) == pytest.approx((math.log(2), math.log(4)), abs=1e-6)


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        ({}, "offsets, costs or levels"),
        ({"offsets": [1.0], "costs": [[1.0]]}, "offsets, costs or levels"),
        ({"costs": [[1.0, 2.0], [1.0]]}, "no square matrix"),
        ({"offsets": [float("nan")]}, "finite"),
        ({"offsets": ["a"]}, "offsets"),
    ],
)
def test_rules_that_make_no_sense_are_refused(values: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        parse(DecisionRule, values, where="the rule")
