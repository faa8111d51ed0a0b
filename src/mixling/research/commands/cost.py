"""`mixling cost`: parameters, operations, time and memory of models by length of the text."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from mixling.cli.completion import complete_models
from mixling.cli.output import put, wrapped
from mixling.errors import ConfigError
from mixling.tables import terminal_width

_BATCH = 1  # text in one pass
_REPEATS = 7  # passes; their median is reported
_MOST_SECONDS = 20.0  # of a pass; longer texts are skipped beyond


def cost_command(
    models: Annotated[
        list[str],
        typer.Argument(
            metavar="MODEL...",
            help="Names (see `mixling models`) or TOML files.",
            autocompletion=complete_models,
        ),
    ],
    lengths: Annotated[
        str, typer.Option("--lengths", metavar="FROM:TO|N,N,...", help="Tokens: doubling from FROM to TO, or a list.")
    ] = "32:512",
    device: Annotated[str, typer.Option("--device", metavar="cpu|cuda", help="Device to run the models on.")] = "cpu",
    out: Annotated[
        Path | None, typer.Option("-o", "--out", metavar="FILE.json", help="Write the numbers to this file.")
    ] = None,
    plot: Annotated[Path | None, typer.Option("--plot", metavar="FILE.png", help="Plot them to this file.")] = None,
) -> None:
    """Measure time and memory of models.

    The encoders of all models (mixers and feed-forward layers, on random token vectors) take turns in one process, so
    that they can be compared even on a busy machine. A model that runs out of memory is left out at greater lengths.
    """
    import torch

    from mixling.export.figures import check_plot
    from mixling.networks.presets import model_config
    from mixling.provenance import provenance
    from mixling.research.cost.report import FOOTNOTE, as_table, caption, to_file
    from mixling.research.cost.timing import time_model
    from mixling.research.inspect.plots import cost_curves

    if device not in ("cpu", "cuda") or (device == "cuda" and not torch.cuda.is_available()):
        here = "cpu or cuda" if torch.cuda.is_available() else "cpu only, there is no CUDA device"
        raise ConfigError(f"--device: got {device!r}; allowed here: {here}")
    sizes = read_lengths(lengths)
    if plot is not None:
        check_plot(plot)
    if not all(name.strip() for name in models):
        raise ConfigError("MODEL: got an empty name; `mixling models` lists the names")
    configs = {name: model_config(name) for name in models}
    torch.set_num_threads(1)
    rows = []
    for row in time_model(
        configs, sizes,
        batch=_BATCH, repeats=_REPEATS, device=device, time_limit=_MOST_SECONDS, log=_log,
    ):  # fmt: skip
        rows.append(row)
        put(as_table([row], terminal_width(), header=len(rows) == 1) + "\n")
        if out is not None:  # after every row: a later one may exhaust the memory
            to_file(rows, out, device=device, repeats=_REPEATS)
    if not rows:
        raise ConfigError(f"--lengths: no model could be measured at {sizes[0]} tokens; give shorter lengths")
    put(wrapped(FOOTNOTE) + "\n")
    if plot is not None:
        curves = {name: [(r.length, r.seconds, r.peak_bytes) for r in rows if r.model == name] for name in models}
        cost_curves(curves, plot, caption=caption(provenance(device=device), batch=_BATCH, repeats=_REPEATS))


def read_lengths(text: str) -> list[int]:
    """Return the lengths in a text such as "32:8192" (doubling) or "32,100,500".

    Raises:
        ConfigError: the text is malformed.
    """
    try:
        if ":" in text:
            first, last = (int(part) for part in text.split(":"))
            out = [first << i for i in range(32) if first << i <= last]
        else:
            out = [int(part) for part in text.split(",")]
        if not out or min(out) < 1:
            raise ValueError
    except ValueError:
        raise ConfigError(f"--lengths: got {text!r}; allowed: FROM:TO such as 32:8192, or N,N,... from 1") from None
    return sorted(set(out))


def _log(message: str) -> None:
    print(message, file=sys.stderr)
