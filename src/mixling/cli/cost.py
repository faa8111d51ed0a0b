"""`mixling cost`: parameters, operations, time and memory of models against the length of the text."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from mixling.cli.completion import complete_models
from mixling.cli.output import put
from mixling.errors import ConfigError


def cost(
    models: Annotated[
        list[str],
        typer.Argument(
            metavar="MODEL...",
            help="Names (see `mixling models`) or TOML files.",
            autocompletion=complete_models,
        ),
    ],
    lengths: Annotated[
        str, typer.Option("--lengths", metavar="FROM:TO|N,N,...", help="Tokens: doubled from FROM to TO, or a list.")
    ] = "32:512",
    batch: Annotated[int, typer.Option("--batch-size", min=1, help="Texts in one pass.")] = 1,
    repeats: Annotated[int, typer.Option("--repeats", min=1, help="Passes, of which the median counts.")] = 7,
    device: Annotated[str, typer.Option("--device", metavar="cpu|cuda", help="Where the models run.")] = "cpu",
    threads: Annotated[int, typer.Option("--threads", min=1, help="Threads of a CPU.")] = 1,
    time_limit: Annotated[
        float, typer.Option("--time-limit", min=0.0, help="Seconds of a pass beyond which longer texts are left out.")
    ] = 20.0,
    out: Annotated[
        Path | None, typer.Option("-o", "--out", metavar="FILE.json", help="Write the numbers there.")
    ] = None,
    plot: Annotated[Path | None, typer.Option("--plot", metavar="FILE.png", help="Draw them there.")] = None,
) -> None:
    """Measure what models cost.

    The bodies of all models (mixers and feed-forwards, on random token vectors) take turns in one run, so that
    they can be compared on a busy machine too. A model that runs out of memory is left out at greater lengths.
    """
    import torch

    from mixling.cost.provenance import provenance
    from mixling.cost.report import FOOTNOTE, as_table, caption, to_file
    from mixling.cost.timing import evaluate
    from mixling.inspect.plots import cost_curves
    from mixling.models.presets import model_config

    if device not in ("cpu", "cuda") or (device == "cuda" and not torch.cuda.is_available()):
        here = "cpu or cuda" if torch.cuda.is_available() else "cpu only, there is no CUDA device"
        raise ConfigError(f"--device: got {device!r}; allowed here: {here}")
    sizes = read_lengths(lengths)
    configs = {name: model_config(name) for name in models}
    torch.set_num_threads(threads)
    found = []
    for row in evaluate(configs, sizes, batch=batch, repeats=repeats, device=device, time_limit=time_limit, log=_log):
        found.append(row)
        put(as_table([row], header=len(found) == 1) + "\n")
        if out is not None:  # after every row: a later one may take all memory
            to_file(found, out, device=device, repeats=repeats)
    if not found:
        raise ConfigError(f"--lengths: nothing could be measured at {sizes[0]} tokens; give shorter ones")
    put(f"{FOOTNOTE}\n")
    if plot is not None:
        curves = {name: [(r.length, r.seconds, r.peak_bytes) for r in found if r.model == name] for name in models}
        cost_curves(curves, plot, caption=caption(provenance(device=device), batch=batch, repeats=repeats))


def read_lengths(text: str) -> list[int]:
    """Lengths from "32:8192" (each twice the one before) or "32,100,500".

    Raises:
        ConfigError: it is neither.
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
