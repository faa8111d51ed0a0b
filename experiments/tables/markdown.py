"""How results are read, and how numbers and rows of a table are written."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

NO_RESULTS = "*There is no results file yet.*"


def read_results(folder: Path, name: str, of: str = "experiments") -> Any:
    """Return the contents of a results file of the repository's folder, of `experiments` or `benchmarks`."""
    return json.loads((folder / of / "results" / f"{name}.json").read_text("utf-8"))


def as_markdown(rows: Sequence[Sequence[str]]) -> str:
    """Return a table, whose first row is the heading."""
    lines = [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join([lines[0], f"|{'---|' * len(rows[0])}", *lines[1:]])


def fraction(value: float, digits: int = 3) -> str:
    """.817 for 0.817."""
    return f"{value:.{digits}f}".removeprefix("0")


def fractions(values: Iterable[float]) -> str:
    """.817, .823 for 0.817 and 0.823."""
    return ", ".join(map(fraction, values))


def percent(value: float) -> str:
    """81.7 for 0.817."""
    return f"{100 * value:.1f}"


def percents(values: Iterable[float]) -> str:
    """81.7, 82.3 for 0.817 and 0.823."""
    return ", ".join(map(percent, values))


def mean_and_seeds(values: Sequence[float]) -> str:
    """The mean in percent, with each seed."""
    return f"{percent(statistics.mean(values))} ({percents(values)})"


def percent_spread(values: Sequence[float]) -> str:
    """Mean and standard deviation in percent, 81.7 ± 0.2; of one value itself."""
    mean = percent(statistics.mean(values))
    return f"{mean} ± {percent(statistics.stdev(values))}" if len(values) > 1 else mean


def spread(values: Sequence[float]) -> str:
    """Mean and standard deviation of at least three seeds."""
    assert len(values) >= 3, values
    return f"{fraction(statistics.mean(values))} ± {fraction(statistics.stdev(values))}"


def spread_or_mean(values: Sequence[float]) -> str:
    """`spread`, or the mean alone of fewer seeds."""
    return spread(values) if len(values) > 2 else fraction(statistics.mean(values))


def interval(difference: float, low: float, high: float) -> str:
    """+1.4 [+0.2, +2.6], in points, for .014 and the ends of its interval."""
    return f"{100 * difference:+.1f} [{100 * low:+.1f}, {100 * high:+.1f}]"
