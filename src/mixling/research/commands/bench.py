"""`mixling bench`: what a token mixer costs and remembers, beside all others."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from mixling.cli.output import put
from mixling.errors import ConfigError
from mixling.tables import fit_columns, terminal_width

_LENGTHS = (128, 512, 2048)  # of the measured costs
_MOST_SECONDS = 300.0  # of a form's trainings
_TASKS = "listops, sst2, sick, conjnli or cogs"


def bench_command(
    mixer: Annotated[str, typer.Argument(metavar="MIXER", help="Type of a mixer, as in a configuration.")],
    overrides: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Set an option of the mixer.")
    ] = None,
    task: Annotated[
        str | None, typer.Option("--task", metavar="NAME", help=f"Train on this instead: {_TASKS}.")
    ] = None,
    data: Annotated[
        Path | None, typer.Option("--data", metavar="DIR", help="Folder of data sets (experiments/layout.py).")
    ] = None,
    out: Annotated[
        Path | None, typer.Option("-o", "--out", metavar="FILE.json", help="Write the numbers to this file.")
    ] = None,
) -> None:
    """Measure a token mixer beside all others.

    Time and memory are of the mixer alone. Recall is multi-query associative recall (Zoology) at 32, 64 and 128 tokens:
    the full form of the mixer and the causal one, if it has one, are trained at three learning rates, and validation
    chooses. All takes up to ten minutes of two cores. The other rows are of experiments/results/bench.json.
    --task takes minutes to hours.
    """
    import torch

    from mixling.config import read_overrides
    from mixling.mixers import mixer_config
    from mixling.provenance import provenance
    from mixling.storage import write_json

    config = mixer_config({**read_overrides(overrides or ()), "type": mixer})
    torch.set_num_threads(1)
    made = provenance(seed=0)
    if task is None:
        found: dict[str, Any] = {"cost": _costs(config), "recall": _recall(config)}
    else:
        from mixling.research.bench.tasks import BENCH_TASKS, run_task

        if task not in BENCH_TASKS:
            raise ConfigError(f"--task: got {task!r}; allowed: {_TASKS}")
        found = {task: run_task(config, task, data, _log)}
        put(f"{task}: {found[task]['test']:.3f} on test, at learning rate {found[task]['rate']:g}\n")
    if out is not None:
        write_json(out, {"provenance": made, "mixer": config.to_dict(), **found})


def _costs(config: Any) -> list[dict[str, Any]]:
    from dataclasses import asdict

    from mixling.networks.config import ModelConfig
    from mixling.research.bench.recall import DIM, block
    from mixling.research.cost.report import as_table
    from mixling.research.cost.timing import time_model

    model = ModelConfig(dim=DIM, layers=(block(config),))
    rows = list(time_model({config.type: model}, _LENGTHS, repeats=5, mixing_only=True, log=_log))
    put(f"The mixer alone, width {DIM}, one text:\n{as_table(rows, terminal_width())}\n\n")
    return [asdict(row) for row in rows]


def _recall(config: Any) -> list[dict[str, Any]]:
    from mixling.research.bench.recall import PAIRS_BY_LENGTH, run_recall, table

    mine = [row.to_dict() for row in run_recall(config, most_seconds=_MOST_SECONDS, log=_log)]
    rows = {f"* {config.type}" + ", causal" * (row["form"] == "causal"): row for row in mine} | table()
    rows = dict(sorted(rows.items(), key=lambda item: -sum(item[1]["recall"].values())))
    columns = {
        "recall": list(rows),
        **{
            f"{length} tokens": [f"{row['recall'][str(length)]:.3f}" for row in rows.values()]
            for length in PAIRS_BY_LENGTH
        },
        "rate": [f"{row['rate']:g}" for row in rows.values()],
        "state": ["" if row["state"] is None else f"{row['state']:,}" for row in rows.values()],
        "parameters": [f"{row['parameters']:,}" for row in rows.values()],
    }
    put(fit_columns(columns, terminal_width(), drop=("rate", "parameters", "state")) + "\n")
    put("* measured now; state: the numbers that a causal form keeps of 128 tokens\n")
    return mine


def _log(message: str) -> None:
    print(message, file=sys.stderr)
