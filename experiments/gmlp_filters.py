"""gMLP, Figures 4 and 9: spatial filters that are learned, with and without the Toeplitz constraint.

Paper: trained without the constraint the matrices come out nearly Toeplitz, that is shift invariant; filters look
forward, backward and both ways, and are local in some layers and wide in others. Here: two gMLPs of four layers and
width 128 on IMDB reviews, 128 tokens, from the same start but for the constraint.

    python experiments/gmlp_filters.py --data ../shared/data --runs runs/gmlp        # 10 minutes of one core

Beside the picture it prints how much of each free matrix is Toeplitz: the share of its squares that the means of its
diagonals explain, and the same of its start, which is chance.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import torch
from gmlp_ablation import DIM, LENGTH, encode_text, family, train

from mixling.provenance import provenance
from mixling.research.inspect import learned_filters, load_inspected, spatial_filters
from mixling.research.presets import gmlp
from mixling.storage import write_json

MODELS = {
    "toeplitz": family("gmlp", 4),
    "free": gmlp(num_layers=4, dim=DIM, ffn_dim=6 * DIM, max_len=LENGTH, weights="dense"),
}


def toeplitz_fraction(matrix: np.ndarray) -> float:
    """Of a matrix's sum of squares, the share of its nearest Toeplitz matrix, whose diagonals are the means."""
    size = len(matrix)
    explained = sum(
        len(diagonal) * diagonal.mean() ** 2
        for diagonal in (np.diagonal(matrix, offset) for offset in range(1 - size, size))
    )
    return float(explained / (matrix**2).sum())


def main() -> None:
    """Train what is missing, measure and draw."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--runs", type=Path, required=True)
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--rate", type=float, default=6e-3)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "gmlp_filters.json")
    options = parser.parse_args()
    made = provenance(seed=0)
    torch.set_num_threads(1)
    text = options.runs / "text"
    encode_text(options.data / "imdb_unsup_lm" / "train.txt.gz", text)
    filters: dict[str, dict[int, np.ndarray]] = {}
    report: dict[str, object] = {}
    for name, model in MODELS.items():
        folder = options.runs / "filters" / name
        validation = train(model, text, folder, steps=options.steps, lr=options.rate)
        filters[name] = {item.layer: item.values for item in learned_filters(load_inspected(folder))}
        fractions = [toeplitz_fraction(matrix) for matrix in filters[name].values()]
        report[name] = {"perplexity": validation["perplexity"], "toeplitz_share": fractions}
        print(name, report[name], flush=True)
    start = np.random.default_rng(0).uniform(-1, 1, (LENGTH, LENGTH))
    report["chance"] = toeplitz_fraction(start)
    write_json(options.out, {**made, "settings": {"steps": options.steps, "rate": options.rate}, "models": report})
    # The middle row of each matrix (Figure 4), and the free matrices themselves (Figure 9).
    spatial_filters(filters, options.out.with_suffix(".png"), matrices=["free"])


if __name__ == "__main__":
    main()
