"""Profiles of a model's data, and what new texts are compared by."""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np
import pytest
from scipy.stats import chi2_contingency

from mixling import DataError
from mixling.answers.predictions import Prediction
from mixling.drift import (
    CONFIDENCE_BINS,
    LENGTH_BINS,
    UNKNOWN_BINS,
    KnownWords,
    Profile,
    bins,
    find_drift,
    profile_of,
    profile_words,
)
from mixling.drift.report import _chance

VOCABULARY = [f"word{i}" for i in range(60)]


def texts(number: int, length: int = 10, seed: int = 0, vocabulary: Sequence[str] = VOCABULARY) -> list[str]:
    draw = random.Random(f"{seed} {length}")
    return [" ".join(draw.choices(vocabulary, k=draw.randint(length - 3, length + 3))) for _ in range(number)]


def answered(number: int, rate: float = 0.5, sure: float = 0.8) -> list[Prediction]:
    """Answers of which a fraction is `a`."""
    labels = ["a" if index < rate * number else "b" for index in range(number)]
    return [
        Prediction(truncated=False, label=label, probabilities={label: sure, "other": 1 - sure}) for label in labels
    ]


@pytest.fixture(scope="module")
def profile() -> Profile:
    right = np.arange(400) % 4 > 0
    confidence = np.full(400, 0.8)
    labels = [("a",) if index < 200 else ("b",) for index in range(400)]
    return profile_of(texts(600), texts(400, seed=1), answers=labels, confidence=confidence, right=right)


def test_words_are_those_of_both_texts_and_signs_of_han_by_themselves() -> None:
    assert profile_words(("It's RED_ish, 3x!", "é")) == ["it", "s", "red", "ish", "3x", "é"]
    assert profile_words("我爱nlp") == ["我", "爱", "nlp"]
    assert profile_words(["given", "as words"]) == ["given", "as", "words"]


@pytest.mark.parametrize("ends", [LENGTH_BINS, UNKNOWN_BINS, CONFIDENCE_BINS])
def test_a_value_is_in_the_first_bin_whose_end_is_not_below_it(ends: tuple[float, ...]) -> None:
    values = [*ends, *(end + 1e-6 for end in ends)]
    expected = [next((i for i, end in enumerate(ends) if value <= end), len(ends)) for value in values]
    assert bins(values, ends).tolist() == expected


def test_the_filter_knows_what_was_added_and_little_else() -> None:
    known = KnownWords()
    for number in range(1000):
        known.add(f"in{number}")
    again = KnownWords(known.content())
    assert all(f"in{number}" in again for number in range(1000))
    assert sum(f"out{number}" in again for number in range(5000)) < 0.05 * 5000


def test_a_profile_counts_held_out_texts_and_is_small(profile: Profile) -> None:
    assert profile.texts == sum(profile.lengths) == sum(profile.unknown) == 400
    assert profile.answers == {"a": 200, "b": 200}
    assert profile.unknown[0] == 400  # all words are known
    assert profile.confidence is not None
    assert profile.right is not None
    assert (profile.confidence[6], profile.right[6]) == (400, 300)
    many = profile_of(texts(50), texts(50), answers=[(f"a label with a long name {i}",) for i in range(50)])
    assert len(many.model_dump_json()) < 2300
    assert many.answers is not None
    assert 5 < len(many.answers) < 50


def test_texts_of_the_same_kind_do_not_move(profile: Profile) -> None:
    for seed in range(2, 22):
        found = find_drift(profile, texts(200, seed=seed), answered(200))
        assert not found.moved, found
        assert found.reliable
        assert found.accuracy == 0.75
        assert found.estimate == pytest.approx(0.75, abs=0.01)
        assert found.examples == ()


def moved(profile: Profile, new: list[str], predictions: list[Prediction]) -> set[str]:
    return {one.name for one in find_drift(profile, new, predictions).moved}


def test_each_statistic_moves_by_itself(profile: Profile) -> None:
    same = texts(200, seed=5)
    assert moved(profile, texts(200, length=40), answered(200)) == {"length"}
    assert moved(profile, texts(200, vocabulary=["strange", "other", "new"]), answered(200)) == {"unknown words"}
    assert moved(profile, same, answered(200, rate=0.95)) == {"answers"}
    assert moved(profile, same, answered(200, sure=0.99)) == {"confidence"}
    assert moved(profile, same[:4], answered(4, rate=1.0)) == set()  # four texts show nothing


def test_confidence_alone_keeps_the_estimate_and_others_do_not(profile: Profile) -> None:
    sure = find_drift(profile, texts(200, seed=5), answered(200, sure=0.5))
    assert sure.reliable
    other = find_drift(profile, texts(200, length=40), answered(200))
    assert not other.reliable


def test_misspelled_words_are_no_warning_and_another_language_is(profile: Profile) -> None:
    mixed = texts(120, seed=5) + texts(80, vocabulary=["strange", "other", "new"])
    assert {one.name for one in find_drift(profile, mixed, answered(200)).moved} == {"unknown words"}
    assert find_drift(profile, mixed, answered(200)).reliable
    assert not find_drift(profile, mixed[80:], answered(120)).reliable


def test_the_estimate_is_of_all_answers_and_has_a_margin(profile: Profile) -> None:
    sure = np.full(400, 0.75)
    many = np.full(4000, 0.75)
    right = np.arange(4000) % 5 > 0
    more = profile_of(texts(50), texts(400), answers=[("a",)] * 4000, confidence=sure, counted=many, right=right)
    found = find_drift(more, texts(200, seed=3), answered(200))
    assert found.accuracy == pytest.approx(0.8)
    assert found.estimate == pytest.approx(0.8, abs=0.01)
    assert found.margin == pytest.approx(1.96 * (0.16 / 4000 + 0.16 / 200) ** 0.5, rel=0.02)
    assert more.confidence is not None
    assert sum(more.confidence) == 400


def test_examples_are_those_that_moved(profile: Profile) -> None:
    new = [*texts(150, seed=5), *texts(60, seed=6, vocabulary=["strange", "words"])]
    found = find_drift(profile, new, answered(210))
    assert {one.name for one in found.moved} == {"unknown words"}
    assert set(found.examples) <= set(new[150:])
    assert len(found.examples) == 20
    assert found.to_dict()["moved"] == ["unknown words"]


def test_other_labels_and_several_of_a_text_are_counted() -> None:
    several = [("a", "b") if index % 2 else ("a",) for index in range(100)]
    profile = profile_of(texts(200), texts(100, seed=1), answers=several)
    same = [Prediction(truncated=False, labels=labels) for labels in several]
    assert not find_drift(profile, texts(100, seed=2), same).moved
    other = [Prediction(truncated=False, labels=("c",)) for _ in range(100)]
    (movement,) = find_drift(profile, texts(100, seed=2), other).moved
    assert movement.name == "answers"
    nothing = profile_of(texts(200), texts(100, seed=1))
    assert {one.name for one in find_drift(nothing, texts(100, seed=2), [Prediction(truncated=False)] * 100)
            .movements} == {"length", "unknown words"}  # fmt: skip


@pytest.mark.parametrize("shift", [0.0, 0.05, 0.3])
def test_the_chance_is_that_of_the_chi_squared_test(shift: float) -> None:
    rng = np.random.default_rng(0)
    before = rng.multinomial(500, [0.2, 0.3, 0.4, 0.1]).astype(float)
    after = rng.multinomial(300, [0.2 + shift, 0.3, 0.4 - shift, 0.1]).astype(float)
    expected = chi2_contingency(np.array([before, after]), correction=False).pvalue
    assert _chance(before, after) == pytest.approx(expected, rel=0.15, abs=1e-9)


def test_no_text_is_an_error(profile: Profile) -> None:
    with pytest.raises(DataError, match="no texts"):
        find_drift(profile, [], [])
