"""Pairs of shapes: each signal is taken apart again with loops, by nothing but its zeros."""

from __future__ import annotations

import itertools
import sys
from pathlib import Path

import numpy as np
import pytest

from mixling import ConfigError

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "experiments"))

from shapes import pairs_of_shapes

COUNT = 200


@pytest.fixture(scope="module")
def split() -> tuple[np.ndarray, np.ndarray]:
    return pairs_of_shapes(COUNT, seed=3)


def shapes_of(signal: np.ndarray) -> list[tuple[int, int]]:
    """Begin and end of each run of samples that are not zero."""
    found, begin = [], None
    for location, value in enumerate([*signal, 0.0]):
        if value != 0 and begin is None:
            begin = location
        elif value == 0 and begin is not None:
            found.append((begin, location))
            begin = None
    return found


def is_rectangle(samples: np.ndarray) -> bool:
    return len(set(samples.tolist())) == 1


def test_signals_are_of_two_triangles_and_two_rectangles_that_do_not_touch(split: tuple) -> None:
    for signal in split[0]:
        shapes = shapes_of(signal)
        assert len(shapes) == 4  # overlapping or touching ones would be fewer
        assert [is_rectangle(signal[a:b]) for a, b in shapes].count(True) == 2
        for begin, end in shapes:
            samples = signal[begin:end].astype(float)
            assert 4 <= len(samples) <= 12
            assert 1 <= samples.max() <= 25
            if not is_rectangle(samples):
                top = int(samples.argmax())
                left, right = np.diff(samples[: top + 1]), np.diff(samples[top:])
                assert (left > 0).all()
                assert (right < 0).all()
                # Straight sides: of neighboring steps, only those at the foot and at the top are shorter.
                for steps in (left[1:-1], right[1:-1]):
                    np.testing.assert_allclose(steps, steps[:1].repeat(len(steps)), rtol=1e-4)


def test_targets_have_each_shape_at_the_mean_height_of_its_pair(split: tuple) -> None:
    for signal, target in zip(*split, strict=True):
        shapes = shapes_of(signal)
        assert shapes_of(target) == shapes
        for rectangle in (False, True):
            pair = [(a, b) for a, b in shapes if is_rectangle(signal[a:b]) == rectangle]
            heights = [float(signal[a:b].max()) for a, b in pair]
            mean = sum(heights) / 2
            for (begin, end), height in zip(pair, heights, strict=True):
                np.testing.assert_allclose(target[begin:end], signal[begin:end] * (mean / height), rtol=1e-5)


def test_heights_of_a_pair_differ_by_more_than_4(split: tuple) -> None:
    for signal in split[0]:
        heights: dict[bool, list[float]] = {False: [], True: []}
        for a, b in shapes_of(signal):
            heights[is_rectangle(signal[a:b])].append(float(signal[a:b].max()))
        assert all(abs(first - second) > 4 for first, second in heights.values())


def test_shapes_of_both_kinds_stand_everywhere_in_every_order(split: tuple) -> None:
    orders = set()
    covered = np.zeros((2, 100), dtype=bool)
    for signal in split[0]:
        shapes = shapes_of(signal)
        orders.add(tuple(is_rectangle(signal[a:b]) for a, b in shapes))
        for a, b in shapes:
            covered[int(is_rectangle(signal[a:b])), a:b] = True
    assert orders == {order for order in itertools.product([False, True], repeat=4) if sum(order) == 2}
    assert covered[:, 5:-5].all()


def test_signals_depend_on_the_seed_alone_and_more_of_them_begin_with_the_fewer(split: tuple) -> None:
    for few, many in zip(pairs_of_shapes(7, seed=3), split, strict=True):
        assert few.dtype == np.float32
        assert few.shape == (7, 100)
        np.testing.assert_array_equal(few, many[:7])
    # Beyond one draw: no signal is there twice.
    many = pairs_of_shapes(1000, seed=3)[0]
    np.testing.assert_array_equal(many[:COUNT], split[0])
    assert len(np.unique(many, axis=0)) == 1000
    assert not (pairs_of_shapes(7, seed=4)[0] == split[0][:7]).all(1).any()


def test_other_lengths_none_at_all_and_too_short_ones() -> None:
    inputs, targets = pairs_of_shapes(3, length=60, seed=0)
    assert inputs.shape == targets.shape == (3, 60)
    assert all(len(shapes_of(signal)) == 4 for signal in inputs)
    assert pairs_of_shapes(0, seed=0)[0].shape == (0, 100)
    with pytest.raises(ConfigError, match=r"got 49; .* at least 50"):
        pairs_of_shapes(1, length=49, seed=0)
