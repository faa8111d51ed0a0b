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


# Characters of each column, in the order of the table, and which are left out first.
_COLUMNS = {"tokens": 7, "parameters": 13, "GFLOPs": 10, "ms": 10, "GFLOP/s": 8, "peak MB": 9}
_DROPPED = ("GFLOP/s", "parameters", "GFLOPs", "peak MB")
_NAME = 24


def as_table(rows: Sequence[Measurement], width: int | None = None, *, header: bool = True) -> str:
    """Return a line for each measurement, after an optional header; each has the same columns.

    Args:
        width: characters of a line, which has fewer columns where it is narrow; None: any.
    """
    columns = dict(_COLUMNS)
    for name in _DROPPED:
        if width is not None and _NAME + sum(columns.values()) + len(columns) > width:
            del columns[name]
    cells = [["model", *columns]] if header else []
    for row in rows:
        values = {
            "tokens": str(row.length),
            "parameters": f"{row.parameters:,}",
            "GFLOPs": f"{row.flops / 1e9:.4f}",
            "ms": f"{row.seconds * 1e3:.3f}",
            "GFLOP/s": f"{row.flops / row.seconds / 1e9:.1f}",
            "peak MB": f"{row.peak_bytes / 1e6:.2f}",
        }
        cells.append([row.model, *(values[name] for name in columns)])
    return "\n".join(
        " ".join([f"{name:<{_NAME}}", *(cell.rjust(size) for cell, size in zip(rest, columns.values(), strict=True))])
        for name, *rest in cells
    )


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
    write_json(path, {"provenance": made, "rows": list(map(asdict, rows))})
