"""Mixtures: T5's rates, epochs that add up, and examples that are drawn equally often."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mixling import ConfigError
from mixling.config import parse
from mixling.research.seq2seq import MixingConfig, draws
from mixling.research.seq2seq.mixture import draw


def tasks(*sizes: int) -> dict[str, int]:
    return {f"task {location}": size for location, size in enumerate(sizes)}


some_sizes = st.lists(st.integers(1, 10**7), min_size=1, max_size=8)


@given(some_sizes)
def test_without_a_limit_every_example_is_drawn_once(sizes: list[int]) -> None:
    assert draws(MixingConfig(), tasks(*sizes)) == sizes


@given(st.integers(1, 10**9), st.none() | st.integers(1, 10**9), st.floats(1, 1e6))
def test_one_task_is_drawn_as_it_is(size: int, limit: int | None, temperature: float) -> None:
    assert draws(MixingConfig(limit=limit, temperature=temperature), tasks(size)) == [size]
    assert draws(MixingConfig(weights={"task 0": temperature}), tasks(size)) == [size]


@given(some_sizes, st.integers(1, 10**7))
def test_a_limit_takes_from_large_tasks(sizes: list[int], limit: int) -> None:
    """Fractions tell each task's share exactly: a largest remainder is less than one example away."""
    counts, total = draws(MixingConfig(limit=limit), tasks(*sizes)), sum(sizes)
    assert sum(counts) == total
    counted = [min(size, limit) for size in sizes]
    fractions = [Fraction(total * size, sum(counted)) for size in counted]
    assert all(abs(count - fraction) < 1 for count, fraction in zip(counts, fractions, strict=True))
    ups = [fraction % 1 for fraction, count in zip(fractions, counts, strict=True) if count > fraction]
    downs = [fraction % 1 for fraction, count in zip(fractions, counts, strict=True) if count <= fraction]
    assert not ups or not downs or min(ups) >= max(downs) - Fraction(1, 10**6)
    assert min(counts) >= min(sizes)


@given(some_sizes, st.floats(1, 50), st.none() | st.integers(1, 10**6))
def test_temperature_is_a_root_of_the_rates(sizes: list[int], temperature: float, limit: int | None) -> None:
    counts = draws(MixingConfig(temperature=temperature, limit=limit), tasks(*sizes))
    assert sum(counts) == sum(sizes)
    for size, count in zip(sizes, counts, strict=True):
        ratios = sum(
            math.pow(min(other, limit or other) / min(size, limit or size), 1 / temperature) for other in sizes
        )
        assert count == pytest.approx(sum(sizes) / ratios, abs=1.001)


def test_examples_worked_out_by_hand() -> None:
    # min(n, 20) is 10 and 20: a third and two thirds of 1010.
    assert draws(MixingConfig(limit=20), tasks(10, 1000)) == [337, 673]
    # Roots of 100 and 900 are 10 and 30: a quarter of 1000.
    assert draws(MixingConfig(temperature=2), tasks(100, 900)) == [250, 750]
    assert draws(MixingConfig(temperature=1e9), tasks(1, 10, 89)) == [33, 33, 34]
    assert draws(MixingConfig(limit=1), tasks(7, 3, 1)) == [4, 4, 3], "of equal remainders the first"
    assert draws(MixingConfig(weights={"task 1": 3, "task 0": 1}), tasks(100, 20)) == [30, 90]


@given(st.integers(1, 40), st.integers(0, 100), st.integers(1, 6))
def test_every_example_is_drawn_equally_often(size: int, count: int, epochs: int) -> None:
    drawn = np.concatenate([draw(size, count, epoch=epoch, seed=[3, 1]) for epoch in range(epochs)])
    assert len(drawn) == count * epochs
    for first in range(0, len(drawn), size):  # whatever the epochs, each turn is an order of all
        turn = drawn[first : first + size]
        assert len(set(turn.tolist())) == len(turn)
        assert set(turn.tolist()) <= set(range(size))
    times = np.bincount(drawn, minlength=size)
    assert times.max() - times.min() <= 1


def test_orders_are_random_and_a_function_of_seed_and_epoch() -> None:
    orders = {tuple(draw(50, 50, epoch=epoch, seed=seed)) for epoch in range(5) for seed in ([0], [1], [0, 4], [4, 0])}
    assert len(orders) == 20
    assert np.array_equal(draw(50, 30, epoch=7, seed=[5]), draw(50, 30, epoch=7, seed=[5]))
    # Each of 5 examples stands at each of 5 places in a fifth of the turns: 400 +- 18 of 2,000.
    locations = np.stack([draw(5, 5, epoch=epoch, seed=[0]) for epoch in range(2000)])
    times = np.stack([np.bincount(column, minlength=5) for column in locations.T])
    assert np.abs(times - 400).max() < 90


def test_an_order_is_not_that_of_its_seed_alone() -> None:
    assert not np.array_equal(draw(50, 50, epoch=0, seed=[5, 0]), np.random.default_rng([5, 0]).permutation(50))


def test_what_cannot_be_mixed_is_reported() -> None:
    with pytest.raises(ConfigError, match=r"mixing\.weights: there is no task 'snip'; did you mean 'snips'\?"):
        draws(MixingConfig(weights={"snip": 1, "cogs": 1}), {"snips": 5, "cogs": 5})
    with pytest.raises(ConfigError, match=r"mixing\.weights: no weight for the task 'cogs'"):
        draws(MixingConfig(weights={"snips": 1}), {"snips": 5, "cogs": 5})
    with pytest.raises(ConfigError, match=r"'cogs' has 1 of 1001, which rounds to none of the 10 examples"):
        draws(MixingConfig(weights={"snips": 1000, "cogs": 1}), {"snips": 5, "cogs": 5})
    for values, reported in (
        ({"limit": 0}, r"mixing: limit: got 0; allowed: integer >= 1"),
        ({"temperature": 0.5}, r"mixing: temperature: got 0\.5; allowed: number >= 1"),
        ({"temperature": math.inf}, "mixing: temperature: got inf; .*finite"),
        ({"weights": {"a": 0}}, r"mixing: weights\.a: got 0; .*greater than 0"),
        ({"weights": {"a": 1}, "limit": 5}, "mixing: weights exclude limit and temperature"),
    ):
        with pytest.raises(ConfigError, match=reported):
            parse(MixingConfig, values, where="mixing")
    given = MixingConfig(weights={"a": 2.5})
    assert parse(MixingConfig, given.to_dict(), where="mixing") == given
