"""How often each task of a mixture is drawn, and which of its examples.

Source: T5 (Raffel et al. 2020), section 3.5.2: examples-proportional mixing with an artificial limit, and
temperature-scaled mixing, which with a high temperature is equal mixing. T5 draws each example by chance; here the
numbers of an epoch are fixed and each task goes through its examples in random orders, so that all of them are seen
equally often.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Annotated

import numpy as np
import numpy.typing as npt
from pydantic import Field, model_validator

from mixling.config import Config
from mixling.errors import ConfigError, near_miss


class MixingConfig(Config):
    """The rates of tasks: min(size, limit)^(1 / temperature), or given ones."""

    limit: int | None = Field(None, ge=1, description="no task counts as more examples than these; None: no limit")
    temperature: float = Field(
        1.0, ge=1, allow_inf_nan=False, description="1: rates are as sizes; the higher, the more alike they are"
    )
    weights: dict[str, Annotated[float, Field(gt=0, allow_inf_nan=False)]] = Field(
        {}, description="rates of all tasks by their names, in place of limit and temperature; only ratios count"
    )

    @model_validator(mode="after")
    def _one_rule(self) -> MixingConfig:
        if self.weights and (self.limit is not None or self.temperature != 1):
            raise ValueError("weights decide the rates alone; leave out limit and temperature, or the weights")
        return self


def draws(config: MixingConfig, sizes: Mapping[str, int]) -> list[int]:
    """How many examples of each task an epoch has; together they are as many as all tasks have.

    Whole numbers by the largest remainders; of equal ones the first task has more.

    Args:
        sizes: how many examples each task has, one at least.

    Raises:
        ConfigError: the weights are not those of the tasks, or so small that a task would never be drawn.
    """
    assert sizes
    assert min(sizes.values()) > 0
    rates = _rates(config, sizes)
    total = sum(sizes.values())
    fractions = rates * (total / math.fsum(rates))
    counts = np.floor(fractions).astype(np.int64)
    missing = total - int(counts.sum())
    counts[np.argsort(counts - fractions, kind="stable")[:missing]] += 1
    for name, count in zip(sizes, counts, strict=True):
        if count == 0:  # by weights only: a limit and a temperature never give the smallest task less than it has
            raise ConfigError(
                f"mixing.weights: {name!r} has {config.weights[name]:g} of {sum(config.weights.values()):g}, which is "
                f"none of the {total:,} examples of an epoch; give it more, or leave the task out"
            )
    return counts.tolist()


def draw(size: int, count: int, *, epoch: int, seed: Sequence[int]) -> npt.NDArray[np.int64]:
    """The examples of a task in one epoch: `count` numbers below `size`.

    The epochs divide an endless row of random orders of the task among them, so no example is drawn once more before
    all others are, even from one epoch to the next, and nothing has to be kept to go on with a later epoch.
    """
    first, last = epoch * count, (epoch + 1) * count
    turns = range(first // size, -(-last // size))
    # With the 1 at its end the seed of turn 0 is not `seed` itself: for NumPy [5] and [5, 0] are the same.
    orders = [np.random.default_rng([*seed, turn, 1]).permutation(size) for turn in turns]
    start = first - turns.start * size
    return np.concatenate([np.zeros(0, np.int64), *orders])[start : start + count]


def _rates(config: MixingConfig, sizes: Mapping[str, int]) -> npt.NDArray[np.float64]:
    if not config.weights:
        most = math.inf if config.limit is None else config.limit
        return np.array([min(size, most) ** (1 / config.temperature) for size in sizes.values()], np.float64)
    for name in config.weights:
        if name not in sizes:
            raise ConfigError(f"mixing.weights: there is no task {name!r}; {near_miss(name, sizes)}")
    for name in sizes:
        if name not in config.weights:
            raise ConfigError(f"mixing.weights: no weight for the task {name!r}; each of the tasks needs one, above 0")
    return np.array([config.weights[name] for name in sizes], np.float64)
