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
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from safetensors.numpy import load_file

from mixling.cost.provenance import provenance
from mixling.models.presets import gmlp
from mixling.storage import write_json

MODELS = {
    "toeplitz": family("gmlp", 4),
    "free": gmlp(num_layers=4, dim=DIM, ffn_dim=6 * DIM, max_len=LENGTH, weights="dense"),
}


def toeplitz_share(matrix: np.ndarray) -> float:
    """Of a matrix's sum of squares, the share of its nearest Toeplitz matrix, whose diagonals are the means."""
    size = len(matrix)
    explained = sum(
        len(diagonal) * diagonal.mean() ** 2
        for diagonal in (np.diagonal(matrix, offset) for offset in range(1 - size, size))
    )
    return float(explained / (matrix**2).sum())


def draw(filters: dict[str, list[np.ndarray]], path: Path) -> None:
    """The middle row of each matrix (Figure 4), and the free matrices themselves (Figure 9)."""
    layers = len(filters["free"])
    figure = Figure(figsize=(3.2 * layers, 7.2), dpi=120, layout="compressed")
    FigureCanvasAgg(figure)
    axes = figure.subplots(3, layers)
    for column in range(layers):
        for row, (name, matrices) in enumerate(filters.items()):
            middle = matrices[column][LENGTH // 2]
            axes[row, column].plot(np.arange(LENGTH) - LENGTH // 2, middle, linewidth=1)
            axes[row, column].set_title(f"{name}, layer {column + 1}", fontsize=9)
            axes[row, column].grid(alpha=0.3)
        matrix = filters["free"][column]
        limit = np.quantile(np.abs(matrix), 0.995)
        axes[2, column].imshow(matrix, cmap="RdBu", vmin=-limit, vmax=limit, interpolation="nearest")
        axes[2, column].set_title(f"free, layer {column + 1}", fontsize=9)
    figure.savefig(path, metadata={"Software": None})


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
    filters: dict[str, list[np.ndarray]] = {}
    report: dict[str, object] = {}
    for name, model in MODELS.items():
        folder = options.runs / "filters" / name
        dev = train(model, text, folder, steps=options.steps, lr=options.rate)
        weights = load_file(folder / "model.safetensors")
        found = [weights[f"encoder.layers.{layer}.mixers.0.weight"] for layer in range(len(model.blocks))]
        if name == "toeplitz":  # W[i, j] = w[n - 1 + j - i]
            distance = np.arange(LENGTH)[None] - np.arange(LENGTH)[:, None]
            found = [row[LENGTH - 1 + distance] for row in found]
        filters[name] = found
        report[name] = {"perplexity": dev["perplexity"], "toeplitz_share": [toeplitz_share(item) for item in found]}
        print(name, report[name], flush=True)
    start = np.random.default_rng(0).uniform(-1, 1, (LENGTH, LENGTH))
    report["chance"] = toeplitz_share(start)
    write_json(options.out, {**made, "settings": {"steps": options.steps, "rate": options.rate}, "models": report})
    draw(filters, options.out.with_suffix(".png"))


if __name__ == "__main__":
    main()
