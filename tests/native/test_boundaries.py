"""What Python gives the C core: each size is compared before it is used, element types and addresses are checked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from mixling.native import _core, _counts, _margins, _steps

WORDS = "[UNK]\na\nb\n##a\n##b"
HUGE = [-1, -(2**63), 2**63 - 1, 2**62, 2**32, 2**31, 2**31 - 1, 2**24 + 1]


def odd(array: np.ndarray) -> Any:
    """The elements of an array at an odd address, with their type."""
    raw = np.zeros(array.nbytes + 1, np.uint8)[1:]
    out = raw.view(array.dtype).reshape(array.shape) if array.nbytes else array
    out[...] = array
    assert out.ctypes.data % array.itemsize or array.itemsize == 1
    return out


def raw(array: np.ndarray) -> Any:
    return memoryview(array).cast("B")


def wide(array: np.ndarray) -> Any:
    """Elements of another type, of as many bytes."""
    kind = {"f": np.int32, "i": np.float32, "d": np.int64, "b": np.float64}[
        array.dtype.kind if array.dtype != np.int8 else "b"
    ]
    return array.view(np.int32 if array.dtype == np.float64 else kind) if array.itemsize > 1 else array


@pytest.mark.parametrize("number", HUGE)
@pytest.mark.parametrize("place", range(4))
def test_a_hasher_compares_each_number_alone(place: int, number: int) -> None:
    numbers = [100, 8, 0, 0]
    numbers[place] = number
    with pytest.raises((ValueError, OverflowError)):
        _core.Hasher(WORDS, *numbers, 5)
    for numbers in ([100, 8, 2**63 - 1, 2**63 - 1], [100, 1 << 16, 1, 0], [100, 2**62, 2**62, 2**62]):
        with pytest.raises(ValueError, match="out of range"):
            _core.Hasher(WORDS, *numbers, 5)
    assert len(_core.Hasher(WORDS, 100, 8, 2, 2, 5).features(["ab", "abba"])) > 0


@pytest.mark.parametrize("number", [0, *HUGE, 2**62 + 2**61 + 2])
@pytest.mark.parametrize("place", range(2))
def test_a_finder_of_duplicates_compares_its_numbers(place: int, number: int) -> None:
    numbers = [8, 8]
    _counts.new_duplicates(*numbers, 0.7, 2)
    numbers[place] = number
    with pytest.raises(ValueError, match="out of range"):
        _counts.new_duplicates(*numbers, 0.7, 2)


def multiply(change: Callable[[int, np.ndarray], Any]) -> np.ndarray:
    ints, floats = np.int32, np.float32
    arrays = [
        np.zeros((2, 2), floats), np.array([0, 1, 2], ints), np.array([0, 1], ints), np.ones(2, floats),
        np.array([0, 1, 2], ints), np.array([0, 1], ints), np.ones(2, floats),
    ]  # fmt: skip
    _counts.multiply_upper(*(change(index, array) for index, array in enumerate(arrays)))
    return arrays[0]


def fit(change: Callable[[int, np.ndarray], Any]) -> np.ndarray:
    ints, floats = np.int32, np.float32
    arrays = [
        np.array([0, 1, 2], ints), np.array([0, 1], ints), np.ones(2, floats), np.array([[1], [-1]], np.int8),
        np.ones((2, 1), floats), np.zeros((2, 1), floats), np.zeros((3, 1), floats), np.ones((2, 1), floats),
    ]  # fmt: skip
    _margins.fit_margins(1, *(change(index, array) for index, array in enumerate(arrays)), 0.1, 10)
    return arrays[6]


def sums(change: Callable[[int, np.ndarray], Any]) -> np.ndarray:
    ints, floats = np.int32, np.float32
    arrays = [
        np.array([0, 1, 2], ints), np.array([0, 1], ints), np.ones(2, floats), np.ones((2, 1), floats),
        np.zeros((2, 1), floats), np.zeros(2, np.float64),
    ]  # fmt: skip
    _margins.sum_by_feature(1, *(change(index, array) for index, array in enumerate(arrays)))
    return arrays[5]


def pairs(change: Callable[[int, np.ndarray], Any]) -> np.ndarray:
    return np.frombuffer(_counts.count_pairs(change(0, np.array([0, 1, 0], np.int32)), 1, 2, 2)[2], np.float32)


CALLS = {
    "multiply_upper": (multiply, 7),
    "fit_margins": (fit, 8),
    "sum_by_feature": (sums, 6),
    "count_pairs": (pairs, 1),
}


@pytest.mark.parametrize("name", CALLS)
def test_arrays_have_their_type_and_a_sound_address(name: str) -> None:
    call, number = CALLS[name]
    assert call(lambda index, array: array).any()
    for place in range(number):
        for wrong in (odd, raw, wide, lambda array: array.astype(">f8"), lambda array: None, lambda array: array[::-1]):

            def change(index: int, array: np.ndarray, place: int = place, wrong: Any = wrong) -> Any:
                return wrong(array) if index == place else array

            given = change(place, np.zeros(1, np.int8))
            if wrong in (odd, raw, wide) and (name, place) == ("fit_margins", 3):
                continue  # bytes are of any type, at any address
            if given is None and (name, place) == ("fit_margins", 7):
                continue  # may be None
            with pytest.raises((ValueError, TypeError, BufferError)):
                call(change)


def test_the_kernels_of_training_check_their_arrays() -> None:
    def expand(x: Any) -> None:
        floats = np.float32
        tokens, dim, hidden = 4, 16, 16
        mask, weights, bias = np.ones(tokens, bool), np.ones((hidden, tokens), floats), np.ones(hidden, floats)
        out = np.zeros((tokens, dim), floats)
        _steps.token_mlp(
            256,
            0,
            1,
            tokens,
            dim,
            hidden,
            tokens,
            x,
            mask,
            weights,
            bias,
            weights.T.copy(),
            out,
            np.zeros(tokens, floats),
        )

    sound = np.ones((4, 16), np.float32)
    expand(sound)
    for wrong in (odd(sound), raw(sound), sound.view(np.int32), np.ones((2, 16)), None):
        with pytest.raises((ValueError, TypeError)):
            expand(wrong)
