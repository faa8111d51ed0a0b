"""Measured costs as a table and as a file that says how it was made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from mixling.cost.provenance import provenance
from mixling.cost.timing import Evaluation
from mixling.storage import write_json

FOOTNOTE = "FLOPs are those of matrix products, 2 for each multiply-add; FFTs are not counted."


def as_table(rows: Sequence[Evaluation], *, header: bool = True) -> str:
    """One line for each measurement."""
    lines = []
    if header:
        lines.append(
            f"{'model':<24} {'tokens':>7} {'parameters':>13} {'GFLOPs':>10} {'ms':>10} {'GFLOP/s':>8} {'peak MB':>9}"
        )
    for row in rows:
        work, speed = row.flops / 1e9, row.flops / row.seconds / 1e9
        lines.append(
            f"{row.model:<24} {row.length:>7} {row.parameters:>13,} {work:>10.4f} {row.seconds * 1e3:>10.3f} "
            f"{speed:>8.1f} {row.peak_bytes / 1e6:>9.2f}"
        )
    return "\n".join(lines)


def caption(made: Mapping[str, Any], *, batch: int, repeats: int) -> str:
    """Return a line for a picture: on what, and how, the numbers of a `provenance` were measured."""
    hardware = made["hardware"]
    device = hardware.get("gpu") or f"{hardware['cpu']}, {hardware['threads']} thread{'s' * (hardware['threads'] != 1)}"
    texts = "1 text" if batch == 1 else f"{batch:,} texts"
    return f"{device}; batches of {texts}; median of {repeats} passes; torch {made['versions']['torch']}"


def to_file(rows: Sequence[Evaluation], path: Path, *, device: str, repeats: int) -> None:
    """Write all numbers with hardware, versions and date as JSON.

    Raises:
        StorageError: the file cannot be written.
    """
    made = {**provenance(device=device), "device": device, "repeats": repeats}
    write_json(path, {"provenance": made, "rows": [asdict(row) for row in rows]})
