"""Pairs of shapes: a task that needs information from other, variable positions.

A signal has two triangles and two rectangles of different heights at random positions. The target is the same signal
with each shape's height replaced by the mean of its pair, so the output at each sample depends on the height of the
other shape of the same kind, wherever it is.
Source: Fleuret 2019, "Attention mechanisms" in his deep learning course, as used in section 4.7 of HyperMixer.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from mixling.errors import ConfigError

_MIN_LENGTH = 50  # shorter signals rarely have room for the shapes
HEIGHTS, WIDTHS = (1.0, 25.0), (5.0, 11.0)
MIN_DIFFERENCE = 4.0  # of the heights of a pair
_DRAWN = 2048  # signals drawn at a time, including unusable ones

_Floats = npt.NDArray[np.float32]


def pairs_of_shapes(count: int, *, length: int = 100, seed: int) -> tuple[_Floats, _Floats]:
    """Return signals (B, N) and targets (B, N) for B = `count` and N = `length`; a larger count extends a smaller one.

    The center, height (1 to 25) and width (5 to 11 samples) of each shape are uniform. A signal is drawn again unless
    the heights of both pairs differ by more than 4 and any two shapes are separated by at least one zero. The top of a
    triangle is one sample wide, so that its height is always visible.
    Unlike the source, there is no noise of +-0.15 on signals and targets, so that an error of zero is possible; and the
    condition on heights, which its program checks twice for triangles, holds for both pairs.

    Raises:
        ConfigError: `length` is less than 50.
    """
    if length < _MIN_LENGTH:
        raise ConfigError(f"length: got {length}; four shapes need a signal of at least {_MIN_LENGTH} samples")
    rng = np.random.default_rng(seed)
    inputs, targets = [np.empty((0, length), np.float32)], [np.empty((0, length), np.float32)]
    missing = count
    while missing > 0:
        x, y = _draw(rng, length)
        inputs.append(x[:missing])
        targets.append(y[:missing])
        missing -= len(x)
    return np.concatenate(inputs), np.concatenate(targets)


def _draw(rng: np.random.Generator, length: int) -> tuple[_Floats, _Floats]:
    """Draw random signals and return the usable ones; axis 1 has the shapes, of which the first two are triangles."""
    centres = rng.uniform(WIDTHS[1] / 2, length - WIDTHS[1] / 2, (_DRAWN, 4, 1))
    heights = rng.uniform(*HEIGHTS, (_DRAWN, 4, 1))
    widths = rng.uniform(*WIDTHS, (_DRAWN, 4, 1))
    distances = np.abs(np.arange(length) - centres)
    shapes = np.maximum(0.0, 1.0 - np.maximum(0.0, distances - 0.5) * 2 / widths)  # of height one
    shapes[:, 2:] = (distances < widths / 2)[:, 2:]
    occupied = shapes > 0
    apart = ((occupied[..., 1:] | occupied[..., :-1]).sum(1) <= 1).all(1)
    pairs = heights.reshape(_DRAWN, 2, 2)
    usable = apart & (np.abs(pairs[..., 0] - pairs[..., 1]) > MIN_DIFFERENCE).all(1)
    means = pairs.mean(2).repeat(2, axis=1)[..., None]
    inputs, targets = ((height * shapes)[usable].sum(1).astype(np.float32) for height in (heights, means))
    return inputs, targets
