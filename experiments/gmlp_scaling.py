"""gMLP, Figures 5, 7 and 8 in small: perplexity against parameters, and fine-tuned accuracy against perplexity.

Paper (C4, vocabulary 32k): over depths of 18 to 144 layers gMLP's perplexity falls by the same power law as the
Transformer's; accuracy on SST-2 follows perplexity alike for both, on MNLI gMLP's lies below at the same perplexity,
and aMLP's above the Transformer's. Here: IMDB reviews, width 128, bodies of 0.15 to 1.2 million parameters, and SST-2.

    python experiments/gmlp_scaling.py --data ../shared/data --runs runs/gmlp       # 2 hours of one core
    python experiments/gmlp_scaling.py --data ../shared/data --runs runs/gmlp --fractions 0.01 0.1 1   # 40 minutes

All have equal steps and the rate that experiments/gmlp_ablation.py has for models of this width; the deepest, for which
it may be too high, also a third of it, and the better one counts. The law is perplexity = a P^-k, P the body's
parameters, fitted by least squares of the logarithms. Fine-tuning has one rate, two epochs and one seed, on a fifth of
SST-2's rows: the picture is of a trend, not a comparison of two points.

With `--fractions`, only the axis of data is run (Figure 7): the models of the middle depth, with the same steps, on the
first part of the encoded reviews. The subwords and the held-out reviews are the same for all parts.
"""

from __future__ import annotations

import argparse
import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from gmlp_ablation import SUBWORDS, encode_text, family, train
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import StrMethodFormatter
from pretraining import TASKS, load, tune

from mixling import Predictor
from mixling.data import split_validation
from mixling.models import count
from mixling.provenance import provenance
from mixling.storage import read_json, sha256_of, write_json, write_sealed

DEPTHS = {"transformer": (1, 3, 6), "gmlp": (1, 4, 8), "amlp": (1, 3, 6)}
RATES = {1: (6e-3,), 3: (6e-3,), 4: (6e-3,), 6: (6e-3, 2e-3), 8: (6e-3, 2e-3)}  # by depth


def power_law(sizes: Sequence[float], values: Sequence[float]) -> tuple[float, float]:
    """(a, k) of values = a sizes^-k, by least squares of the logarithms."""
    slope, offset = np.polyfit(np.log(sizes), np.log(values), 1)
    return float(np.exp(offset)), float(-slope)


def part_of(text: Path, folder: Path, fraction: float) -> Path:
    """Write a copy of the encoded text with the first training documents only; held-out documents stay.

    Args:
        fraction: of the training tokens, less than the rest of a document.
    """
    if fraction == 1:
        return text
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(text, folder)
    corpus = folder / "corpus"
    meta = read_json(corpus / "corpus.json")
    rows = np.fromfile(corpus / "train.rows", "<u4")
    (ends,) = np.nonzero(rows[: int(fraction * len(rows))] == rows[-1])  # each document ends in the separator
    for path in corpus.glob("train.*"):
        size = path.stat().st_size // len(rows)
        path.write_bytes(path.read_bytes()[: size * (int(ends[-1]) + 1)])
        meta["files"][path.name] = sha256_of(path)
    write_sealed(corpus / "corpus.json", {**meta, "digest": f"{meta['digest']}, {fraction:g}"})
    return folder


def data_axis(options: argparse.Namespace, text: Path) -> dict[str, list[dict[str, Any]]]:
    """Perplexity of the middle depths by the part of the text that they are trained on."""
    found: dict[str, list[dict[str, Any]]] = {}
    for kind in options.kinds:
        depth = DEPTHS[kind][1]
        (rate,) = RATES[depth]
        for fraction in options.fractions:
            part = part_of(text, options.runs / f"text-{fraction:g}", fraction)
            tokens = (part / "corpus" / "train.rows").stat().st_size // 4
            folder = options.runs / "data" / kind / f"{fraction:g}"
            perplexity = train(family(kind, depth), part, folder, steps=options.steps, lr=rate)["perplexity"]
            point = {"fraction": fraction, "tokens": tokens, "layers": depth, "perplexity": perplexity}
            found.setdefault(kind, []).append(point)
            print(kind, point, flush=True)
    return found


def draw(points: dict[str, list[dict[str, Any]]], laws: dict[str, tuple[float, float]], path: Path) -> None:
    """Perplexity over parameters with the fitted laws, and accuracy over perplexity."""
    figure = Figure(figsize=(10, 4.2), dpi=120, layout="compressed")
    FigureCanvasAgg(figure)
    left, right = figure.subplots(1, 2)
    for kind, found in points.items():
        sizes = np.array([point["body"] for point in found])
        factor, power = laws[kind]
        (line,) = left.plot(sizes, [point["perplexity"] for point in found], "o", label=kind)
        left.plot(sizes, factor * sizes**-power, color=line.get_color(), linewidth=1)
        tuned = [point for point in found if "accuracy" in point]
        right.plot([p["perplexity"] for p in tuned], [100 * p["accuracy"] for p in tuned], "o-", label=kind)
    left.set(xscale="log", yscale="log", xlabel="parameters of the body", ylabel="held-out perplexity")
    left.yaxis.set_minor_formatter(StrMethodFormatter("{x:g}"))
    right.set(xlabel="held-out perplexity", ylabel="SST-2 accuracy, %")
    right.invert_xaxis()
    for axes in (left, right):
        axes.grid(alpha=0.3, which="both")
        axes.legend()
    figure.savefig(path, metadata={"Software": None})


def main() -> None:
    """Train what is missing, fit, draw and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--runs", type=Path, required=True)
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--kinds", nargs="+", choices=DEPTHS, default=list(DEPTHS))
    parser.add_argument("--fractions", nargs="+", type=float, help="the axis of data alone: parts of the text")
    parser.add_argument("--train-only", action="store_true", help="train only; fit and write nothing")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "gmlp_scaling.json")
    options = parser.parse_args()
    made = provenance(seed=0, packages=("onnxruntime", "tokenizers"))
    torch.set_num_threads(1)
    text = options.runs / "text"
    encode_text(options.data / "imdb_unsup_lm" / "train.txt.gz", text)
    if options.fractions:
        results = json.loads(options.out.read_text())
        write_json(options.out, {**results, "data": {"provenance": made, "points": data_axis(options, text)}})
        return
    task = TASKS["sst2_glue"]
    few = split_validation(load(task, "sst2_glue", task.train, options.data), fraction=0.2, seed=1)[1]
    rows = split_validation(few, fraction=0.1, seed=0)
    test = load(task, "sst2_glue", task.test, options.data)
    texts, labels = list(test.texts), list(test.targets)
    points: dict[str, list[dict[str, Any]]] = {}
    for kind in options.kinds:
        points[kind] = []
        for depth in DEPTHS[kind]:
            model = family(kind, depth)
            folders = {rate: options.runs / "scaling" / kind / str(depth) / f"{rate:g}" for rate in RATES[depth]}
            validation = {
                rate: train(model, text, folder, steps=options.steps, lr=rate)["perplexity"]
                for rate, folder in folders.items()
            }
            rate = min(validation, key=validation.__getitem__)
            tuned = options.runs / "scaling" / "sst2" / kind / str(depth) / f"{rate:g}" / "0.001" / "0"
            tune(tuned, folders[rate], "pretrained", task._replace(epochs=2), rows)
            point = {
                "layers": depth,
                "body": count(model, vocabulary=SUBWORDS).body,
                "rates": {f"{key:g}": value for key, value in validation.items()},
                "perplexity": validation[rate],
            }
            if not options.train_only:
                answers = [item.label for item in Predictor(tuned).predict_stream(texts)]
                point["accuracy"] = float(np.mean([a == b for a, b in zip(answers, labels, strict=True)]))
            points[kind].append(point)
            print(kind, point, flush=True)
    if options.train_only:
        return
    laws = {}
    for kind, found in points.items():
        laws[kind] = power_law(*([point[key] for point in found] for key in ("body", "perplexity")))
        print(f"{kind}: perplexity = {laws[kind][0]:.0f} P^-{laws[kind][1]:.4f}")
    settings = {"steps": options.steps, "rates": {str(depth): rates for depth, rates in RATES.items()}}
    write_json(options.out, {**made, "settings": settings, "points": points, "laws": laws})
    draw(points, laws, options.out.with_suffix(".png"))


if __name__ == "__main__":
    main()
