"""Tables of encoder-decoders."""

from __future__ import annotations

from pathlib import Path

from tables.markdown import as_markdown, read_results


def remixer_cost(folder: Path) -> str:
    """Operations of the base size, and steps of smaller models."""
    results = read_results(folder, "remixer_cost")
    rows = [["model", "parameters", "GFLOPs", "steps per second", "beside T5.1.1"]]
    for model, row in results["models"].items():
        speeds = [f"{row['steps_per_second']:.2f}", f"{row['relative_speed']:.2f}"]
        rows.append([model, f"{row['parameters']:,}", f"{row['flops'] / 1e9:.0f}", *speeds])
    return as_markdown(rows)
