"""Print the tables of GELU for AVX-512 (src/mixling/native/gelu_table.h).

gelu(x) = max(x, 0) - g(|x|), g(a) = a (1 - Phi(a)). For each of 16 intervals a table has the polynomial that meets g at
the Chebyshev nodes, and at 0. GELU_TABLE: of degree 4, in the fraction of the interval, of [0, 6); beyond, g is below
1e-8.
GELU_SLOPE_TABLE: the same of g', Phi(-a) - a phi(a). GELU_COARSE_TABLE and GELU_COARSE_SLOPE_TABLE, for what is rounded
to 8 bits or to bfloat16: of degree 2, in a; interval i is what is next to i / 4.

    python tools/gelu_table.py > src/mixling/native/gelu_table.h
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

SEGMENTS, LIMIT, DEGREE = 16, 6.0, 4
COARSE_STEP, COARSE_DEGREE = 0.25, 2


def remainder(a: float) -> float:
    """Return a (1 - Phi(a))."""
    return a * math.erfc(a / math.sqrt(2)) / 2


def slope(a: float) -> float:
    """Return the derivative of `remainder`."""
    return math.erfc(a / math.sqrt(2)) / 2 - a * math.exp(-a * a / 2) / math.sqrt(2 * math.pi)


def fit(
    low: float, high: float, degree: int, curve: Callable[[float], float]
) -> tuple[npt.NDArray[np.float64], list[float]]:
    """Return the Chebyshev nodes of an interval and the curve there; in place of the first node above 0, 0 itself."""
    nodes = (1 + np.cos((np.arange(degree + 1) + 0.5) * math.pi / (degree + 1))) / 2
    places = low + nodes * (high - low)
    if low == 0:
        places[-1] = 0.0
    return places, [curve(place) for place in places]


def polynomial(places: npt.NDArray[np.float64], values: list[float]) -> npt.NDArray[np.float64]:
    """Return the coefficients of the polynomial through the points, whose value at 0 is exact: gelu(0) is 0."""
    coefficients = np.polynomial.polynomial.polyfit(places, values, len(places) - 1)
    if places[-1] == 0:
        coefficients[0] = values[-1]
    return coefficients


def show(name: str, rows: list[npt.NDArray[np.floating]]) -> None:
    """Print a table, coefficient by coefficient."""
    print(f"static const float {name}[{len(rows[0])}][{SEGMENTS}] = {{")
    for column in np.array(rows).T:
        parts = [f"{value:.9e}f" for value in column]
        lines = [", ".join(parts[first : first + 6]) for first in range(0, SEGMENTS, 6)]
        print("    {" + ",\n     ".join(lines) + "},")
    print("};")


def main() -> None:
    """Print the header."""
    width = LIMIT / SEGMENTS
    rows: list[npt.NDArray[np.floating]] = []
    slopes: list[npt.NDArray[np.floating]] = []
    coarse: list[npt.NDArray[np.floating]] = []
    coarse_slopes: list[npt.NDArray[np.floating]] = []
    for segment in range(SEGMENTS):
        for curve, found in ((remainder, rows), (slope, slopes)):
            places, values = fit(segment * width, (segment + 1) * width, DEGREE, curve)
            found.append(polynomial(places / width - segment, values))
        low, high = max(0.0, (segment - 0.5) * COARSE_STEP), (segment + 0.5) * COARSE_STEP
        for curve, found in ((remainder, coarse), (slope, coarse_slopes)):
            places, values = fit(low, high, COARSE_DEGREE, curve)
            found.append(polynomial(places, values))
    print("/* Written by tools/gelu_table.py: coefficients of each degree, for each of 16 intervals. */\n")
    show("GELU_TABLE", rows)
    print()
    show("GELU_SLOPE_TABLE", slopes)
    print()
    show("GELU_COARSE_TABLE", coarse)
    print()
    show("GELU_COARSE_SLOPE_TABLE", coarse_slopes)


if __name__ == "__main__":
    main()
