"""Pairs of shapes: a task that no position can answer alone, and no fixed place helps with.

A signal has two triangles and two rectangles of different heights at random places. The target is the same signal with
each shape's height replaced by the mean of its pair: each sample must learn of its shape's kind and of the height of
the one other shape of that kind, wherever it stands.
Source: Fleuret 2019, "Attention mechanisms" of his deep learning course, of which HyperMixer's section 4.7 has it.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from mixling.errors import ConfigError

MIN_LENGTH = 50  # in shorter signals the shapes hardly ever find room
HEIGHTS, WIDTHS = (1.0, 25.0), (5.0, 11.0)
MIN_DIFFERENCE = 4.0  # of the heights of a pair
_DRAWN = 2048  # signals at once, those without room among them

Floats = npt.NDArray[np.float32]


def pairs_of_shapes(count: int, *, length: int = 100, seed: int) -> tuple[Floats, Floats]:
    """Signals (B, N) and their targets (B, N), B = `count` and N = `length`; more of one seed begin with the fewer.

    Of each shape, the centre, the height (1 to 25) and the width (5 to 11 samples) are uniform. The whole is drawn anew
    unless the heights of both pairs differ by more than 4 and at least one sample between any two shapes is zero. The
    top of a triangle is one sample wide, so that its height is always seen.
    Differs from the source: its noise of +-0.15 on signals and targets is left out, so that the least error is zero;
    its condition on the heights, which its program states for the triangles twice, is on both pairs.

    Raises:
        ConfigError: `length` is below 50.
    """
    if length < MIN_LENGTH:
        raise ConfigError(f"length: got {length}; four shapes need a signal of at least {MIN_LENGTH} samples")
    rng = np.random.default_rng(seed)
    inputs, targets = [np.empty((0, length), np.float32)], [np.empty((0, length), np.float32)]
    missing = count
    while missing > 0:
        x, y = _draw(rng, length)
        inputs.append(x[:missing])
        targets.append(y[:missing])
        missing -= len(x)
    return np.concatenate(inputs), np.concatenate(targets)


def _draw(rng: np.random.Generator, length: int) -> tuple[Floats, Floats]:
    """The usable ones of some random signals; axis 1 is of the shapes, the first two of them triangles."""
    centres = rng.uniform(WIDTHS[1] / 2, length - WIDTHS[1] / 2, (_DRAWN, 4, 1))
    heights = rng.uniform(*HEIGHTS, (_DRAWN, 4, 1))
    widths = rng.uniform(*WIDTHS, (_DRAWN, 4, 1))
    distances = np.abs(np.arange(length) - centres)
    subwords = np.maximum(0.0, 1.0 - np.maximum(0.0, distances - 0.5) * 2 / widths)  # of height one
    subwords[:, 2:] = (distances < widths / 2)[:, 2:]
    occupied = subwords > 0
    apart = ((occupied[..., 1:] | occupied[..., :-1]).sum(1) <= 1).all(1)
    pairs = heights.reshape(_DRAWN, 2, 2)
    usable = apart & (np.abs(pairs[..., 0] - pairs[..., 1]) > MIN_DIFFERENCE).all(1)
    means = pairs.mean(2).repeat(2, axis=1)[..., None]
    inputs, targets = ((height * subwords)[usable].sum(1).astype(np.float32) for height in (heights, means))
    return inputs, targets
