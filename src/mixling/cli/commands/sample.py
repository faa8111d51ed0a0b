"""`mixling sample`: write sample data."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from mixling.cli.output import put


def sample_command(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="The set; without it, all are listed.")] = None,
    out: Annotated[Path, typer.Option("-o", "--out", metavar="DIR", help="Folder of the files.")] = Path(),
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace files that differ.")] = False,
) -> None:
    """Write sample data to the current folder.

    The data are invented messages to the support of a shop, written for this project and free of any rights (CC0).
    """
    from mixling.errors import command_line
    from mixling.samples.sets import SAMPLES, write_sample

    if name is None:
        width = max(map(len, SAMPLES))
        put("".join(f"{key:<{width}}  {sample.about}\n" for key, sample in SAMPLES.items()))
        return
    put("".join(f"{path}\n" for path in write_sample(name, out, overwrite=overwrite)))
    words = [str(out / word) if word.endswith((".csv", ".jsonl")) else word for word in SAMPLES[name].train.split()]
    print(f"next: {command_line('mixling', 'train', *words)}", file=sys.stderr)
