"""Sampling the examples of a mixture of tasks.

Source: T5 (Raffel et al. 2020), section 3.5.2: examples-proportional mixing with an artificial limit, and
temperature-scaled mixing, which approaches equal mixing for high temperatures. T5 samples each example independently;
here the number of examples of each task in an epoch is fixed, and each task iterates over its examples in random
orders, so that all of them are seen equally often.
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
    """The rates of tasks: min(size, limit)^(1 / temperature), or explicit weights."""

    limit: int | None = Field(
        default=None, ge=1, description="upper bound of the size of a task in its rate; none: no bound"
    )
    temperature: float = Field(
        default=1.0, ge=1, allow_inf_nan=False, description="1: rates are proportional to sizes; higher: more equal"
    )
    weights: dict[str, Annotated[float, Field(gt=0, allow_inf_nan=False)]] = Field(
        default={}, description="relative rates of all tasks by name, instead of limit and temperature"
    )

    @model_validator(mode="after")
    def _one_rule(self) -> MixingConfig:
        if self.weights and (self.limit is not None or self.temperature != 1):
            raise ValueError("weights exclude limit and temperature; leave out either")
        return self


def draws(config: MixingConfig, sizes: Mapping[str, int]) -> list[int]:
    """Return how many examples of each task are in an epoch; their sum is the number of all examples.

    Rounding is by the largest remainders, with ties to the first task.

    Args:
        sizes: the number of examples of each task, at least 1.

    Raises:
        ConfigError: the weights do not match the tasks, or are so small that a task would never be drawn.
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
        if count == 0:  # due to weights: limit and temperature never give the smallest task less than its size
            raise ConfigError(
                f"mixing.weights: {name!r} has {config.weights[name]:g} of {sum(config.weights.values()):g}, which "
                f"rounds to none of the {total:,} examples of an epoch; raise the weight, or leave the task out"
            )
    numbers: list[int] = counts.tolist()
    return numbers


def draw(size: int, count: int, *, epoch: int, seed: Sequence[int]) -> npt.NDArray[np.int64]:
    """Return the examples of a task in one epoch: `count` indices below `size`.

    The epochs are slices of an endless sequence of random permutations. Hence no example is repeated before all others
    were drawn, even across epochs, and any epoch can be computed without state.
    """
    first = epoch * count
    last = (epoch + 1) * count
    turns = range(first // size, -(-last // size))
    # The trailing 1 makes the seed of turn 0 differ from `seed`: NumPy treats [5] and [5, 0] alike.
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
            raise ConfigError(f"mixing.weights: no weight for the task {name!r}; every task needs one, above 0")
    return np.array([config.weights[name] for name in sizes], np.float64)
