"""Measured costs as a table and as a file with their provenance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from mixling.provenance import provenance
from mixling.research.cost.timing import Measurement
from mixling.storage import write_json

FOOTNOTE = "FLOPs: 2 for each multiply-add of a matrix product, 5 L log2 L for an FFT of L numbers."


def as_table(rows: Sequence[Measurement], *, header: bool = True) -> str:
    """Return a line for each measurement, after an optional header."""
    lines = []
    if header:
        lines.append(
            f"{'model':<24} {'tokens':>7} {'parameters':>13} {'GFLOPs':>10} {'ms':>10} {'GFLOP/s':>8} {'peak MB':>9}"
        )
    for row in rows:
        work = row.flops / 1e9
        speed = row.flops / row.seconds / 1e9
        lines.append(
            f"{row.model:<24} {row.length:>7} {row.parameters:>13,} {work:>10.4f} {row.seconds * 1e3:>10.3f} "
            f"{speed:>8.1f} {row.peak_bytes / 1e6:>9.2f}"
        )
    return "\n".join(lines)


def caption(made: Mapping[str, Any], *, batch: int, repeats: int) -> str:
    """Return a line for a plot that states on which hardware, and how, the numbers were measured."""
    hardware = made["hardware"]
    device = hardware.get("gpu") or f"{hardware['cpu']}, {hardware['threads']} thread{'s' * (hardware['threads'] != 1)}"
    texts = "1 text" if batch == 1 else f"{batch:,} texts"
    return f"{device}; batches of {texts}; median of {repeats} passes; torch {made['versions']['torch']}"


def to_file(rows: Sequence[Measurement], path: Path, *, device: str, repeats: int) -> None:
    """Write all numbers with hardware, versions and date as JSON.

    Raises:
        StorageError: the file cannot be written.
    """
    made = {**provenance(device=device), "device": device, "repeats": repeats}
    write_json(path, {"provenance": made, "rows": [asdict(row) for row in rows]})
