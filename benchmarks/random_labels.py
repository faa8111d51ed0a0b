"""Is there anything to learn? `mixling compare` on random labels, where every system must be level with guessing.

    OMP_NUM_THREADS=1 python benchmarks/random_labels.py --seeds 20 --rows 100 300 1000 5000

Each text has six of 400 words, each label is drawn by a fair coin. For each number of rows and each seed there is one
comparison of the model that `mixling train` chooses with TF-IDF, both at their defaults, without --test: in a third of
them --validation names a tenth of the rows as a file, in a third data.columns.group names groups of five rows. The
other models of `mixling compare` are left out, which take most of its time and are trained by the same function; so is
fastText, whose training diverges on some random rows. An interval is wrong if its lower end is above the share of the
larger class in the rows that it is measured on. Counted are the intervals of the table, Wilson's of the accuracies with
noise and with few examples, which the report gives without, and the differences to TF-IDF whose interval excludes 0. At
95% two-sided, 2.5% are wrong by chance; that they are more than 5% of all is tested (one-sided binomial test). What the
file of results has is not measured again: its provenance is a list, one for each part.
"""

from __future__ import annotations

import argparse
import csv
import dataclasses
import json
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.stats import binomtest

from mixling.comparison import Comparison, benchmark, compare
from mixling.metrics import wilson
from mixling.provenance import provenance
from mixling.runs.resolve import LABELS, resolve
from mixling.storage import write_json
from mixling.text import NoiseLevel
from mixling.training import Callback

FORMS = ("rows", "validation", "groups")
NOISE, FEW = NoiseLevel("delete", 0.3), 10
_candidates = benchmark.candidates


def write_rows(folder: Path, number: int, form: str, seed: int) -> dict[str, Any]:
    """Write rows of random texts and labels, and return them as the `data` of a configuration."""
    rng = np.random.default_rng([seed, number])
    rows = [
        {"text": " ".join(f"w{word}" for word in rng.integers(400, size=6)), "label": "ab"[rng.integers(2)]}
        | {"document": str(index // 5)}
        for index in range(number)
    ]
    held = number // 10 if form == "validation" else 0
    for name, part in (("train.csv", rows[held:]), ("validation.csv", rows[:held])):
        with (folder / name).open("w", newline="") as file:
            table = csv.DictWriter(file, rows[0])
            table.writeheader()
            table.writerows(part)
    return {
        "train": [str(folder / "train.csv")],
        "validation": [str(folder / "validation.csv")] if held else [],
        "columns": {"group": "document" if form == "groups" else None},
    }


def measure(number: int, form: str, seed: int) -> list[dict[str, Any]]:
    """Compare on random rows, and return one entry for each interval."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        data = write_rows(folder, number, form, seed)
        resolved = resolve({"task": "classification", "data": data, "train": {"seed": seed}}, spec=LABELS)
        found = compare(
            resolved, test=(), models=(), seeds=(seed,), folder=folder / "runs", log=lambda message: None,
            callback=Callback, noise=(NOISE,), few=(FEW,),
        )  # fmt: skip
    return [{"rows": number, "form": form, "seed": seed, **line} for line in intervals(found)]


def intervals(found: Comparison) -> list[dict[str, Any]]:
    """Return the intervals of all systems in all tables; `bound` is what the lower end may not be above."""
    counts, held = Counter(found.held_out.targets), len(found.held_out.targets)
    majority, out = max(counts.values()) / held, []
    for name, result in found.test.items():
        values = {"table": result.mean, "noise": found.noisy[name][NOISE], "few": found.few[FEW][name]}
        for table, value in values.items():
            low = result.interval.low if table == "table" else wilson(value, held).low
            out.append({"system": name, "table": table, "value": value, "low": low, "bound": majority})
        if result.difference is not None and result.difference_interval is not None:
            low = result.difference_interval.low
            out.append({"system": name, "table": "difference", "value": result.difference, "low": low, "bound": 0.0})
    return out


def shares(lines: list[dict[str, Any]]) -> dict[str, Any]:
    """Return how many intervals are wrong, their share, and the probability of so many if 5% are."""
    wrong = sum(line["low"] > line["bound"] for line in lines)
    test = binomtest(wrong, len(lines), 0.05, alternative="greater")
    return {
        "intervals": len(lines), "wrong": wrong, "share": round(wrong / len(lines), 4), "p": round(test.pvalue, 4),
    }  # fmt: skip


def summary(lines: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the shares of all intervals, and by table, system, number of rows and form."""
    out = {"all": shares(lines)}
    for key in ("table", "system", "rows", "form"):
        for value in dict.fromkeys(line[key] for line in lines):
            out[f"{key} {value}"] = shares([line for line in lines if line[key] == value])
    return out


def main() -> None:
    """Measure what is named, print the shares after each comparison, and write them with all intervals."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="+", default=[100, 300, 1000, 5000])
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "random_labels.json")
    options = parser.parse_args()
    torch.set_num_threads(1)
    none = dataclasses.replace(benchmark.BASELINES["fasttext"], missing=lambda: "left out")
    benchmark.BASELINES["fasttext"] = none
    benchmark.candidates = lambda *arguments: _candidates(*arguments)[:1]  # type: ignore[assignment]
    found = json.loads(options.out.read_text()) if options.out.exists() else {"provenance": [], "lines": []}
    lines, done = found["lines"], {(line["rows"], line["seed"]) for line in found["lines"]}
    origins = [*found["provenance"], provenance(seed=0, packages=("scikit-learn", "scipy"))]
    for seed in range(options.seeds):
        for index, number in enumerate(options.rows):
            if (number, seed) in done:
                continue
            for line in measure(number, FORMS[(seed + index) % len(FORMS)], seed):
                lines.append({**line, **{key: round(line[key], 4) for key in ("value", "low", "bound")}})
            print(number, seed, json.dumps(summary(lines)["all"]), flush=True)
            write_json(options.out, {"provenance": origins, **summary(lines), "lines": lines})


if __name__ == "__main__":
    main()
