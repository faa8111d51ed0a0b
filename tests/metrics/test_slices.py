"""Slices beside SciPy's distributions and loops."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from mixling.metrics import SliceColumn, each_value, holm, worst_slices


def dimension(name: str, values: np.ndarray) -> SliceColumn:
    names, codes = np.unique(values, return_inverse=True)
    return SliceColumn(name, codes.astype(np.int64), tuple(names.tolist()))


def test_chances_are_scipys() -> None:
    chance = np.random.default_rng(0)
    right = (chance.random(400) < 0.8).astype(float)
    channel = chance.choice(["a", "b", "c"], 400, p=[0.7, 0.25, 0.05])
    for item in each_value(dimension("channel", channel), right):
        members = channel == item.where["channel"]
        known = stats.hypergeom(400, int(right.sum()), int(members.sum()))
        hits = int(right[members].sum())
        expected = min(1, 2 * min(known.cdf(hits), known.sf(hits - 1)))
        assert item.chance == pytest.approx(expected, rel=1e-8)
        assert item.value == pytest.approx(right[members].mean())
        assert item.rest == pytest.approx(right[~members].mean())
    errors = chance.exponential(size=400)
    (item, *_) = each_value(dimension("channel", channel), errors)
    means = [errors[chance.permutation(400)[: item.rows]].mean() for _ in range(4000)]
    far = abs(item.value - errors.mean())
    assert item.chance == pytest.approx(np.mean(np.abs(np.array(means) - errors.mean()) >= far), abs=0.03)


def test_holm_rejects_step_by_step() -> None:
    chances = [0.011, 0.02, 0.04, 0.3, 0.0001]
    adjusted = holm(chances)
    for level in np.linspace(0.0005, 1, 200):
        rejected = set()
        for step, index in enumerate(np.argsort(chances)):  # the method's own statement
            if chances[index] > level / (len(chances) - step):
                break
            rejected.add(index)
        assert rejected == {index for index, value in enumerate(adjusted) if value <= level}
    assert holm([]) == []


def planted(seed: int, worse: float) -> tuple[list[SliceColumn], np.ndarray]:
    """1,500 rows; those of channel b in language x are right less often."""
    chance = np.random.default_rng(seed)
    channel, language, number = (chance.choice(list("abcd"), 1500) for _ in range(3))
    language = np.char.add("l", language)
    right = chance.random(1500) < np.where((channel == "b") & (language == "lc"), 0.85 - worse, 0.85)
    names = ("channel", "language", "number")
    dimensions = [dimension(*pair) for pair in zip(names, (channel, language, number), strict=True)]
    return dimensions, right.astype(float)


def test_a_pair_that_is_worse_comes_first_and_errors_count_the_other_way() -> None:
    dimensions, right = planted(1, 0.4)
    for scores, less_is_better in ((right, False), (1 - right, True)):
        found, _ = worst_slices(dimensions, scores, less_is_better=less_is_better)
        assert found[0].where == {"channel": "b", "language": "lc"}
        assert found[0].significant
        assert all(item.rows >= 20 for item in found)


def test_nothing_is_significant_without_differences() -> None:
    false = sum(any(item.significant for item in worst_slices(*planted(seed, 0))[0]) for seed in range(40))
    assert false <= 4  # 2 are expected at most


def test_rows_beside_a_large_better_value_are_a_slice_and_pairs_below_a_shown_value_are_none() -> None:
    chance = np.random.default_rng(0)
    language = chance.choice(["en", *(f"l{number}" for number in range(40))], 800, p=[0.8, *[0.005] * 40])
    channel = chance.choice(["a", "b"], 800)
    right = (chance.random(800) < np.where(language == "en", 0.9, 0.5)).astype(float)
    found, _ = worst_slices([dimension("language", language), dimension("channel", channel)], right)
    assert found[0].where == {"language": "not en"}
    assert found[0].rows == (language != "en").sum()
    assert found[0].value == pytest.approx(right[language != "en"].mean())
    right = (chance.random(800) < np.where(channel == "a", 0.9, 0.5)).astype(float)
    found, _ = worst_slices([dimension("language", language), dimension("channel", channel)], right)
    assert found[0].where == {"channel": "b"}
    assert not any(len(item.where) == 2 and item.where.get("channel") == "b" for item in found)


def test_values_are_corrected_together_and_one_value_differs_from_nothing() -> None:
    dimensions, right = planted(2, 0.2)
    raw = [item for part in dimensions for item in each_value(part, right)]
    assert [item.chance for item in worst_slices([], right, beside=raw)[1]] == holm([item.chance for item in raw])
    more = [item.chance for item in worst_slices(dimensions, right, beside=raw)[1]]
    assert all(one >= two for one, two in zip(more, holm([item.chance for item in raw]), strict=True))
    assert max(more) > 0.05
    (alone,) = each_value(SliceColumn("one", np.zeros(1500, np.int64), ("x",)), right)
    assert np.isnan(alone.rest)
    assert alone.to_dict()["rest"] is None
    assert not alone.significant
