"""All token mixers on multi-query associative recall: the table that `mixling bench` prints beside yours.

    python experiments/bench.py                 # an hour of one core; goes on where it was interrupted
    python experiments/bench.py --draw          # then: the picture and the package's table, from the results

The task is that of `mixling.research.bench.recall` (Zoology, Arora et al. 2023, arXiv:2312.04927). Every mixer has the
same steps on the same texts; its learning rate is the best of the same three on validation, at 64 tokens, and test is
read once at each length, by the models of that rate, so that a rate which is too high for 128 tokens shows there. One
seed. Options make the mixers about as large as attention with biases, 16,640 parameters a layer at width 64, where a
width of theirs is free; the parameters are in the table.

Written: results/bench.json, after every form of a mixer; with --draw results/bench.png, recall of 128 tokens against
the numbers that the causal form keeps of a text, and the table in the package, src/mixling/research/bench/table.json.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import torch
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from mixling.mixers import mixer_config
from mixling.provenance import provenance
from mixling.research.bench import PAIRS_BY_LENGTH, run_recall
from mixling.storage import write_json

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "experiments" / "results" / "bench.json"
TABLE = ROOT / "src" / "mixling" / "research" / "bench" / "table.json"

SHOWN = ("form", "parameters", "rate", "recall", "state")  # in the package

# By the name of the row: the mixer's table, and the forms that are left out.
MIXERS: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "attention": ({"type": "attention", "num_heads": 1}, ()),
    "hypermixing": ({"type": "hypermixing", "hidden_dim": 192}, ("causal",)),  # which takes hours at this width
    "linear_attention": ({"type": "linear_attention", "num_heads": 1}, ()),
    "gated_linear_attention": ({"type": "gated_linear_attention", "num_heads": 1}, ()),
    "spatial_gating": ({"type": "spatial_gating", "ffn_dim": 172}, ()),
    "remixing": ({"type": "remixing"}, ()),
    "token_mlp": ({"type": "token_mlp", "hidden_dim": 128}, ()),
    "recurrent": ({"type": "recurrent", "hidden_dim": 32}, ()),
    "recurrent, one direction": ({"type": "recurrent", "bidirectional": False}, ("full",)),  # the same
    "linear_attention, 4 heads": ({"type": "linear_attention", "num_heads": 4}, ("full",)),
    "hypermixing, untied, 4 heads": ({"type": "hypermixing", "hidden_dim": 64, "tied": False, "num_heads": 4}, ()),
    "synthesizer": ({"type": "synthesizer"}, ()),
    "token_linear": ({"type": "token_linear"}, ()),
    "fourier": ({"type": "fourier"}, ()),
    "pooling": ({"type": "pooling"}, ()),
    "identity": ({"type": "identity"}, ("causal",)),  # the same
}


def draw(rows: dict[str, Any], path: Path) -> None:
    """Draw the recall of the longest texts against the numbers that causal forms keep."""
    figure = Figure(figsize=(7.0, 4.5), dpi=120, layout="compressed")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    longest = str(max(PAIRS_BY_LENGTH))
    for name, found in rows.items():
        for row in found["forms"]:
            if row["state"]:
                point = row["state"], row["recall"][longest]
                axes.plot(*point, "o", color="C0")
                axes.annotate(name, point, textcoords="offset points", xytext=(5, 4), fontsize=7)
    axes.set_xscale("log")
    axes.set_xlabel(f"numbers that the causal form keeps of {longest} tokens")
    axes.set_ylabel("recall")
    axes.set_ylim(0, 1.05)
    axes.grid(alpha=0.3)
    figure.savefig(path)


def main() -> None:
    """Measure what is missing, write and draw."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mixers", nargs="+", choices=MIXERS, default=list(MIXERS), metavar="NAME")
    parser.add_argument("--forms", nargs="+", choices=("full", "causal"), default=["full", "causal"])
    parser.add_argument("--draw", action="store_true", help="measure nothing")
    options = parser.parse_args()
    torch.set_num_threads(1)
    results = json.loads(RESULTS.read_text("utf-8")) if RESULTS.exists() else {}
    if options.draw:
        table = {
            f"{name}, causal" if row["form"] == "causal" else name: {key: row[key] for key in SHOWN}
            for name, found in results.items()
            for row in found["forms"]
        }
        write_json(TABLE, table)
        draw(results, RESULTS.with_suffix(".png"))
        return
    for name in options.mixers:
        values, left_out = MIXERS[name]
        found = results.get(name, {"mixer": values, "forms": []})
        done = {row["form"] for row in found["forms"]}
        made = provenance(seed=0)
        others = {"full", "causal"} - {*options.forms}
        for row in run_recall(mixer_config(values), without={*left_out, *done, *others}, log=print):
            found["forms"].append({**row.to_dict(), "provenance": made})
            results[name] = found
            write_json(RESULTS, results)


if __name__ == "__main__":
    main()
