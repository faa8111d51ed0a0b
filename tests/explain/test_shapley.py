"""Shapley values against their definition: the mean contribution over all orders."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from mixling.explain import Game, exact_shapley, leave_one_out, sampled_shapley


def random_game(players: int, seed: int) -> Game:
    """A value for every coalition, without any structure."""
    table = np.random.default_rng(seed).normal(size=2**players)
    return lambda coalitions: table[coalitions @ (1 << np.arange(players))]


def over_all_orders(game: Game, players: int) -> np.ndarray:
    total = np.zeros(players)
    orders = list(itertools.permutations(range(players)))
    for order in orders:
        coalition = np.zeros((1, players), bool)
        before = game(coalition)[0]
        for player in order:
            coalition[0, player] = True
            after = game(coalition)[0]
            total[player] += after - before
            before = after
    return total / len(orders)


@pytest.mark.parametrize("players", [1, 2, 3, 6])
def test_exact_values_are_the_mean_over_all_orders(players: int) -> None:
    game = random_game(players, players)
    effects, full, base = exact_shapley(game, players)
    np.testing.assert_allclose(effects, over_all_orders(game, players), atol=1e-12)
    assert effects.sum() == pytest.approx(full - base, abs=1e-12)


def test_ten_players_by_the_formula_over_subsets() -> None:
    game, players = random_game(10, 1), 10
    effects, _, _ = exact_shapley(game, players)
    # The mean over sizes of the mean gain at that size is the same, as every size is as frequent in a random order.
    coalitions = np.array(list(itertools.product([False, True], repeat=players)))
    for player in range(players):
        without = coalitions[~coalitions[:, player]]
        gains = game(without | (np.arange(players) == player)) - game(without)
        sizes = without.sum(1)
        assert effects[player] == pytest.approx(np.mean([gains[sizes == size].mean() for size in range(players)]))


def test_no_players() -> None:
    for method in (exact_shapley, leave_one_out):
        effects, full, base = method(lambda coalitions: np.full(len(coalitions), 2.5), 0)
        assert (effects.shape, full, base) == ((0,), 2.5, 2.5)


def test_sampled_values_sum_exactly_and_approach_the_exact_ones() -> None:
    game = random_game(8, 3)
    exact, full, base = exact_shapley(game, 8)
    few, *_ = sampled_shapley(game, 8, evaluations=100, seed=0)
    many, found_full, found_base = sampled_shapley(game, 8, evaluations=100_000, seed=0)
    assert (found_full, found_base) == (full, base)
    assert few.sum() == pytest.approx(full - base, abs=1e-12)
    assert np.abs(many - exact).max() < 0.06 < np.abs(few - exact).max()


def test_sampling_depends_on_the_seed_alone() -> None:
    game = random_game(8, 4)
    first, again, other = (sampled_shapley(game, 8, evaluations=60, seed=seed)[0] for seed in (1, 1, 2))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


def test_few_evaluations_of_many_players_are_four_orders_and_their_reverses() -> None:
    seen = []

    def game(coalitions: np.ndarray) -> np.ndarray:
        seen.append(len(coalitions))
        return coalitions @ np.arange(30.0) + coalitions[:, 0] * coalitions[:, 29]

    effects, _, _ = sampled_shapley(game, 30, evaluations=1, seed=0)
    assert seen == [8 * 29 + 2]
    # Of a sum, every order gives the exact values; an interaction of two is halved exactly by reversing the order.
    expected = np.arange(30.0)
    expected[[0, 29]] += 0.5
    np.testing.assert_allclose(effects, expected)


def test_leave_one_out_is_the_loss_without_each_player() -> None:
    game = random_game(5, 6)
    effects, full, base = leave_one_out(game, 5)
    everyone = np.ones((1, 5), bool)
    assert full == game(everyone)[0]
    assert base == game(~everyone)[0]
    for player in range(5):
        assert effects[player] == full - game(everyone & (np.arange(5) != player))[0]
