"""`mixling models`: every model that has a name."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Annotated

import typer


def models(
    as_json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
) -> None:
    """List every model by name, with size, cost and paper.

    Parameters are those of front end and body, over the paper's vocabulary where the model has an embedding table.
    FLOPs are those of the body for one text of the greatest length, 2 for each multiply-add.
    """
    from mixling.cost.flops import count
    from mixling.models.presets import PRESETS

    rows = []
    for name, preset in PRESETS.items():
        counts = asdict(count(preset.config, vocabulary=preset.vocabulary))
        rows.append({"name": name, **counts, "vocabulary": preset.vocabulary, "source": preset.source})
    if as_json:
        print(json.dumps(rows, indent=2))
        return
    width = max(map(len, PRESETS))
    print(f"{'model':<{width}} {'parameters':>12} {'body':>12} {'tokens':>7} {'GFLOPs':>9}  source")
    for row in rows:
        print(
            f"{row['name']:<{width}} {row['parameters']:>12,} {row['body']:>12,} {row['length']:>7} "
            f"{row['flops'] / 1e9:>9.3f}  {row['source']}"
        )
