"""HyperMixer, Figures 3 and 4 in small: accuracy against the size of the data, and against the number of trials.

    python experiments/hypermixer_search.py --data ../shared/data --runs runs/search    # 4 hours of one core, estimated
    python experiments/hypermixer_search.py --data ../shared/data --runs runs/search-0.1 --fractions 0.1   # 20 minutes
    python experiments/hypermixer_search.py --data ../shared/data --runs runs/search-snips --task snips     # 8 hours
    python experiments/hypermixer_search.py --data ../shared/data --runs runs/n --space narrow      # around the optimum
    python experiments/hypermixer_search.py --data ../shared/data --runs runs/p --task conjnli --epochs 8 --trials 10

Paper: the relative change of HyperMixer against the Transformer is the greater the less data there are, +12 to +14%
with 10% of SNLI and MNLI, less than +2% with all (Figure 3); of 20 random draws of learning rate and dropout, the
expected best validation performance of HyperMixer is above the Transformer's, most so at small budgets: +6.5% on SNLI,
less than +2% at large ones (Figure 4). Here: the models of equal size of mixer_family.py, and MLP-Mixer beside them,
on SST-2, SNIPS or ConjNLI, whose validation split is the one that trials are compared on. Each model has the same
random trials at each size of the data (`mixling tune`). Smaller training sets are the first of the larger ones, in a
random order.

The paper draws the logarithm of the rate from U(-8, -1), without naming its base, and dropout from U(0, .5): `paper`
reads it as log10, `paper-natural` as the natural logarithm. `narrow` is 1.2 decades around the optimum, and dropout up
to .3: it cannot test how easily a model is tuned.

Results have the expected best of n trials with its standard deviation, of each model and size, and a picture beside
them; sizes that are not named keep what they have. Searches that are finished in --runs are not repeated, and others
are resumed. On a GPU (an H200 and 16 cores), the four sizes of a task side by side take about 8 minutes.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import math
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, NullLocator
from mixer_family import AS_IT_IS, matched, task_of

from mixling.config import dotted
from mixling.provenance import provenance
from mixling.runs.resolve import as_toml
from mixling.storage import read_json, write_json
from mixling.tuning import expected_best

MODELS = ("transformer", "mlp-mixer", "hypermixer")
TRIED = ("sst2_glue", "snips", "conjnli")
SPACES: dict[str, dict[str, dict[str, Any]]] = {
    name: {
        "train.optim.lr": {"low": low, "high": high, "log": True},
        "model.layers.0.dropout": {"low": 0.0, "high": dropout},
    }
    for name, low, high, dropout in (
        ("paper", 1e-8, 1e-1, 0.5),
        ("paper-natural", math.exp(-8), math.exp(-1), 0.5),
        ("narrow", 5e-4, 8e-3, 0.3),
    )
}


def write_part(rows: Sequence[str], fraction: float, path: Path) -> int:
    """Write the first part of the rows in a random order, the same for all fractions; return their number."""
    order = np.random.default_rng(0).permutation(len(rows))
    count = max(1, round(fraction * len(rows)))
    path.write_text("\n".join(rows[index] for index in order[:count]) + "\n", "utf-8")
    return count


def search(folder: Path, options: Sequence[str]) -> None:
    """Run or resume a search."""
    command = [sys.executable, "-m", "mixling", "tune"]
    if (folder / "tune.json").exists():
        subprocess.run([*command, "--resume", "-o", str(folder)], check=True)
    else:
        subprocess.run([*command, *options, "-o", str(folder)], check=True)


def expected(folder: Path, models: Sequence[str]) -> dict[str, dict[str, list[float]]]:
    """The trials of a search, and the expected best of n of them with its standard deviation."""
    with open(folder / "trials.csv", newline="", encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["state"] == "complete" and row["trial"] != "default"]
    out = {}
    for model in models:
        values = [float(row["accuracy"]) for row in rows if row["model"] == model]
        found = expected_best(values, range(1, len(values) + 1))
        out[model] = {"trials": values, "expected": found.mean.tolist(), "deviation": found.deviation.tolist()}
    return out


def draw(sizes: dict[str, Any], path: Path) -> None:
    """Figure 3, the expected best of all trials over the size of the data, and Figure 4, over trials at the largest."""
    figure = Figure(figsize=(10, 4.2), dpi=120, layout="compressed")
    FigureCanvasAgg(figure)
    left, right = figure.subplots(1, 2)
    rows = sorted(sizes.values(), key=lambda size: size["examples"])
    examples = [size["examples"] for size in rows]
    for model, largest in rows[-1]["models"].items():
        best, spread = (
            np.array([size["models"][model][key][-1] for size in rows]) for key in ("expected", "deviation")
        )
        left.errorbar(examples, 100 * best, 100 * spread, marker="o", capsize=3, label=model)
        trials = np.arange(1, len(largest["expected"]) + 1)
        expected, deviation = (100 * np.array(largest[key]) for key in ("expected", "deviation"))
        (line,) = right.plot(trials, expected, label=model)
        right.fill_between(trials, expected - deviation, expected + deviation, color=line.get_color(), alpha=0.15)
    left.set(xscale="log", xticks=examples, xlabel="training examples", ylabel="expected best validation accuracy, %")
    left.set_xticklabels([f"{number:,}" for number in examples])
    left.xaxis.set_minor_locator(NullLocator())
    right.xaxis.set_major_locator(MaxNLocator(integer=True))
    right.set(xlabel=f"trials, {examples[-1]:,} examples", ylabel="expected best validation accuracy, %")
    for axes in (left, right):
        axes.grid(alpha=0.3)
        axes.legend()
    figure.savefig(path, metadata={"Software": None})


def main() -> None:
    """Search what is missing, and write the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--runs", type=Path, required=True)
    parser.add_argument("--task", choices=TRIED, default=TRIED[0])
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--fractions", nargs="+", type=float, default=[0.1, 0.25, 0.5, 1.0])
    parser.add_argument("--space", choices=SPACES, default="paper")
    parser.add_argument("--trials", type=int, default=20)
    parser.add_argument("--epochs", type=int, help="instead of the task's own number")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--out", type=Path, help="by default results/hypermixer_search-TASK-SPACE.json")
    options = parser.parse_args()
    made = provenance(seed=0)
    task, data = task_of(options.task, options), options.data / options.task
    name = f"hypermixer_search-{options.task}-{options.space}.json"
    out: Path = options.out or Path(__file__).parent / "results" / name
    with gzip.open(data / f"{task.train}.jsonl.gz", "rt", encoding="utf-8") as file:
        rows = [line.strip() for line in file if line.strip()]
    options.runs.mkdir(parents=True, exist_ok=True)
    space = options.runs / "space.toml"
    space.write_text("".join(f"{key} = {_inline(value)}\n" for key, value in SPACES[options.space].items()), "utf-8")
    files = [options.runs / f"{name}.toml" for name in options.models]
    for name, path in zip(options.models, files, strict=True):
        path.write_text(as_toml(matched(name, task.max_len)), "utf-8")
    sizes: dict[str, Any] = read_json(out)["fractions"] if out.exists() else {}
    for fraction in options.fractions:
        train = options.runs / f"train-{fraction:g}.jsonl"
        count = write_part(rows, fraction, train)
        given = [str(train), "--validation", str(data / f"{task.validation or task.test}.jsonl.gz")]
        given += [part for key, name in task.columns.items() for part in ("--set", f"data.columns.{key}={name}")]
        given += [part for path in files for part in ("--model", str(path))]
        given += ["--space", str(space), "--trials", str(options.trials), "--jobs", str(options.jobs)]
        as_it_is = [f"train.{key}={value}" for key, value in dotted(AS_IT_IS).items()]
        for change in (f"train.epochs={task.epochs}", "decisions.precision=float32", *as_it_is):
            given += ["--set", change]
        folder = options.runs / f"search-{fraction:g}"
        search(folder, given)
        sizes[f"{fraction:g}"] = {"provenance": made, "examples": count, "models": expected(folder, options.models)}
        for name, found in sizes[f"{fraction:g}"]["models"].items():
            best = f"{found['expected'][-1]:.4f} ({found['deviation'][-1]:.4f})"
            print(f"{fraction:.0%}, {count:,} examples, {name}: expected best of {options.trials}: {best}", flush=True)
    settings = {"task": options.task, "epochs": task.epochs, "trials": options.trials, "space": SPACES[options.space]}
    write_json(out, {"settings": settings, "fractions": dict(sorted(sizes.items(), key=_fraction))})
    draw(sizes, out.with_suffix(".png"))


def _fraction(item: tuple[str, Any]) -> float:
    return float(item[0])


def _inline(value: dict[str, Any]) -> str:
    return "{" + ", ".join(f"{key} = {json.dumps(item)}" for key, item in value.items()) + "}"


if __name__ == "__main__":
    main()
