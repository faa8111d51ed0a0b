"""How often each task of a mixture is drawn."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from mixling.config import Config


class MixingConfig(Config):
    """(stub)"""


def draws(config: MixingConfig, sizes: Sequence[int]) -> list[int]:
    return list(sizes)


def draw(size: int, count: int, *, epoch: int, seed: Sequence[int]) -> npt.NDArray[np.int64]:
    return np.random.default_rng([*seed, epoch]).permutation(size)[:count]
