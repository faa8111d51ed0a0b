"""Tables of metrics on the same examples with noise in their texts."""

from __future__ import annotations

from collections.abc import Mapping

from mixling.text.noise import NoiseLevel

Robustness = Mapping[NoiseLevel, float]
"""The headline metric at each level of noise."""


def noise_cells(clean: Mapping[str, float], noisy: Mapping[str, Robustness]) -> list[list[str]]:
    """Return the cells of a table, the header first, with a row for each level of noise and a column for each model.

    Args:
        clean: the metric without noise, by model.
        noisy: the metric with noise, by model; all models have the levels of the first.
    """
    levels = list(next(iter(noisy.values())))
    rows = [["noise", "words", *noisy], ["none", "-", *(f"{clean[name]:.4f}" for name in noisy)]]
    for level in levels:
        values = [f"{found[level]:.4f} ({100 * (found[level] - clean[name]):+.1f})" for name, found in noisy.items()]
        rows.append([level.noise, f"{level.rate:.0%}", *values])
    return rows


def noise_values(found: Robustness) -> list[dict[str, str | float]]:
    """Return the metric at each level as JSON values."""
    return [{"noise": level.noise, "rate": level.rate, "value": value} for level, value in found.items()]
