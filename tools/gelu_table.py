"""Print the table of GELU for AVX-512 (src/mixling/native/gelu_table.h).

gelu(x) = max(x, 0) - g(|x|), g(a) = a (1 - Phi(a)), which is below 1e-8 from 6 on. For each of 16 intervals of [0, 6)
the table has the polynomial of degree 4 that meets g at the Chebyshev nodes, in the fraction of the interval.

    python tools/gelu_table.py > src/mixling/native/gelu_table.h
"""

from __future__ import annotations

import math

import numpy as np

SEGMENTS, LIMIT, DEGREE = 16, 6.0, 4


def remainder(a: float) -> float:
    """Return a (1 - Phi(a))."""
    return a * math.erfc(a / math.sqrt(2)) / 2


def main() -> None:
    """Print the header."""
    nodes = (1 + np.cos((np.arange(DEGREE + 1) + 0.5) * math.pi / (DEGREE + 1))) / 2
    rows = []
    for segment in range(SEGMENTS):
        values = [remainder((segment + node) * LIMIT / SEGMENTS) for node in nodes]
        rows.append(np.polynomial.polynomial.polyfit(nodes, values, DEGREE))
    print("/* Written by tools/gelu_table.py: coefficients of each degree, for each of 16 intervals of [0, 6). */\n")
    print(f"static const float GELU_TABLE[{DEGREE + 1}][{SEGMENTS}] = {{")
    for column in np.array(rows).T:
        parts = [f"{value:.9e}f" for value in column]
        lines = [", ".join(parts[first : first + 6]) for first in range(0, SEGMENTS, 6)]
        print("    {" + ",\n     ".join(lines) + "},")
    print("};")


if __name__ == "__main__":
    main()
