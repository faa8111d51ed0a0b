"""How much each player of a game contributes: leave-one-out and Shapley values, of any function of coalitions.

A coalition is a row of booleans, one for each player; a game returns the values (M,) of coalitions (M, N).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from mixling.arrays import Float64

Game = Callable[[npt.NDArray[np.bool_]], Float64]

EXACT_PLAYERS = 10  # all 1,024 coalitions are evaluated up to this number
_MIN_PAIRS = 4  # of permutations, however many players there are


def leave_one_out(game: Game, players: int) -> tuple[Float64, float, float]:
    """Return the loss of value when one player leaves (N,), and the values of all players and of none."""
    coalitions = np.ones((players + 2, players), bool)
    coalitions[np.arange(players), np.arange(players)] = False
    coalitions[-1] = False
    values = game(coalitions)
    return values[-2] - values[:players], float(values[-2]), float(values[-1])


def exact_shapley(game: Game, players: int) -> tuple[Float64, float, float]:
    """Return Shapley values (N,) from all 2^N coalitions, and the values of all players and of none.

    The mean contribution of a player to the players before it, over all orders (Shapley, A value for n-person games,
    1953).
    """
    coalitions, weights = _all_coalitions(players)
    values = game(coalitions)
    return weights @ values, float(values[-1]), float(values[0])


@lru_cache(maxsize=EXACT_PLAYERS + 1)
def _all_coalitions(players: int) -> tuple[npt.NDArray[np.bool_], Float64]:
    """Return all coalitions (2^N, N), of nobody first, and the weights (N, 2^N) of their values in each player's."""
    coalitions = (np.arange(2**players)[:, None] >> np.arange(players) & 1).astype(bool)
    sizes = coalitions.sum(1)
    # Of all orders, the fraction in which a player comes right after a coalition of this size; the last is for none.
    after = np.array([*(1 / (players * math.comb(players - 1, size)) for size in range(players)), 0.0])
    weights = np.where(coalitions, after[sizes - 1, None], -after[sizes, None]).T
    return coalitions, np.ascontiguousarray(weights)


def sampled_shapley(game: Game, players: int, *, evaluations: int, seed: int) -> tuple[Float64, float, float]:
    """Return estimates of Shapley values (N,) from random orders, and the values of all players and of none.

    Each order is used forwards and backwards (antithetic permutations; Mitchell et al., Sampling permutations for
    Shapley value estimation, JMLR 2022, section 4), and the estimates sum to the difference of the two values exactly.

    Args:
        evaluations: about the number of coalitions to evaluate; of many players at least those of 4 orders and their
            reverses.
    """
    rng = np.random.default_rng(seed)
    pairs = max(evaluations // (2 * max(players - 1, 1)), _MIN_PAIRS)
    forwards = np.array([rng.permutation(players) for _ in range(pairs)])
    orders = np.concatenate([forwards, forwards[:, ::-1]])  # (P, N)
    ranks = np.argsort(orders, 1)
    prefixes = ranks[:, None, :] < np.arange(1, players)[None, :, None]  # (P, N - 1, N)
    ends = np.array([np.zeros(players, bool), np.ones(players, bool)])
    values = game(np.concatenate([prefixes.reshape(-1, players), ends]))
    base = float(values[-2])
    full = float(values[-1])
    steps = np.full((len(orders), players + 1), base)
    steps[:, 1:-1] = values[:-2].reshape(len(orders), -1)
    steps[:, -1] = full
    gains = np.diff(steps, axis=1)
    return np.take_along_axis(gains, ranks, 1).mean(0), full, base
