"""The tables of GELU for AVX-512: gelu(x) = max(x, 0) - g(|x|), with polynomials of g and g' in 16 intervals."""

from __future__ import annotations

import math
import re
from pathlib import Path

import numpy as np

HEADER = Path(__file__).parents[2] / "src/mixling/native/gelu_table.h"
X = np.linspace(-9, 9, 20_001).astype(np.float32)
CDF = np.array([(1 + math.erf(x / math.sqrt(2))) / 2 for x in X.tolist()])
GELU = X * CDF
SLOPE = CDF + X * np.exp(-X * X / 2) / math.sqrt(2 * math.pi)


def coefficients(name: str) -> np.ndarray:
    """The coefficients (degree + 1, 16) of a table."""
    found = re.search(rf"{name}\[(\d)\]\[16\] = {{(.*?)}};", HEADER.read_text("utf-8"), re.DOTALL)
    assert found is not None
    return np.array(re.findall(r"-?\d\.\d+e[+-]\d+", found[2]), np.float32).reshape(int(found[1]), 16)


def polynomials(table: np.ndarray, interval: np.ndarray, at: np.ndarray) -> np.ndarray:
    out = table[-1][interval]
    for row in table[-2::-1]:
        out = out * at + row[interval]
    return out


def test_the_tables_of_degree_4() -> None:
    place = np.minimum(np.abs(X), np.float32(5.999999)) * np.float32(16 / 6)
    interval = place.astype(int)
    got = np.maximum(X, 0) - polynomials(coefficients("GELU_TABLE"), interval, place - interval)
    assert np.abs(got - GELU).max() < 4e-7
    of_remainder = polynomials(coefficients("GELU_SLOPE_TABLE"), interval, place - interval)
    slope = np.where(X > 0, 1 - of_remainder, of_remainder)
    assert np.abs(slope - SLOPE).max() < 2e-6


def test_the_tables_for_what_is_rounded_to_8_bits_or_to_bfloat16() -> None:
    place = np.minimum(np.abs(X), np.float32(3.8749))
    interval = np.rint(4 * place).astype(int)
    got = np.maximum(X, 0) - polynomials(coefficients("GELU_COARSE_TABLE"), interval, place)
    assert np.abs(got - GELU).max() < 2.5e-4
    of_remainder = polynomials(coefficients("GELU_COARSE_SLOPE_TABLE"), interval, place)
    slope = np.where(X > 0, 1 - of_remainder, of_remainder)
    assert np.abs(slope - SLOPE).max() < 1e-3
    assert got.min() > -0.17  # what the rounding to unsigned integers relies on


def test_at_0_the_tables_are_exact() -> None:
    """What has no tokens stays 0."""
    assert coefficients("GELU_TABLE")[0, 0] == coefficients("GELU_COARSE_TABLE")[0, 0] == 0
