"""Tune on a data set, measure the CPU time, and compare the tuned with the default configuration on test data.

    OMP_NUM_THREADS=1 python benchmarks/tuning.py TRAIN VALIDATION TEST --trials 40 --seeds 0,1,2 --out FILE.json

The search is `mixling tune`. Its best configuration and the default one are then trained with each seed, on the
training examples, and evaluated on the test data. CPU time is that of all processes: on a machine that does nothing
else, `--jobs 2` takes half of it.
"""

from __future__ import annotations

import argparse
import csv
import json
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from mixling.cost import provenance
from mixling.storage import write_json
from mixling.tuning import TRIALS_FOLDER, read_plan


def run(*arguments: object) -> float:
    """Run a command of mixling, and return its CPU seconds."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-m", "mixling", *map(str, arguments)], check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def best_trial(folder: Path) -> dict[str, str]:
    """Return the row of the best trial; of equal ones that with the lowest loss."""
    metric = 3  # the column of the metric
    with open(folder / "trials.csv", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["state"] == "complete"]
    name = list(rows[0])[metric]
    sign = -1 if read_plan(folder).less_is_better else 1
    return max(rows, key=lambda row: (sign * float(row[name]), -float(row["loss"])))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("train", "validation", "test"):
        parser.add_argument(name, type=Path)
    parser.add_argument("--text", default="text", help="the column of the texts")
    parser.add_argument("--label", default="label", help="the column of the labels")
    parser.add_argument("--trials", type=int, default=40)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    origin = provenance(seed=0, packages=("optuna",))
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) / "search"
        data = [options.train, "--validation", options.validation, "--text", options.text, "--label", options.label]
        seconds = run("tune", *data, "--trials", options.trials, "--jobs", options.jobs, "-o", folder)
        best, plan = best_trial(folder), read_plan(folder)
        found: dict[str, list[float]] = {}
        for name in {"default": "default", "tuned": best["trial"]}:
            trial = "default" if name == "default" or best["trial"] == "default" else f"{int(best['trial']):04}"
            config = json.loads((folder / TRIALS_FOLDER / best["model"] / trial / "run.json").read_bytes())["config"]
            for seed in options.seeds.split(","):
                found.setdefault(name, []).append(
                    measure(config, int(seed), options, Path(temporary) / f"{name}{seed}")
                )
    differences = np.subtract(found["tuned"], found["default"])
    result: dict[str, Any] = {
        "provenance": origin,
        "data": [path.name for path in (options.train, options.validation, options.test)],
        "trials": options.trials,
        "cpu_seconds": seconds,
        "best": best,
        "test": found,
        "mean_difference": float(differences.mean()),
        "keys": list(next(iter(plan.spaces.values()))),
    }
    write_json(options.out, result)
    print(json.dumps({key: value for key, value in result.items() if key != "provenance"}, indent=2))


def measure(config: dict[str, Any], seed: int, options: argparse.Namespace, folder: Path) -> float:
    """Train a configuration with a seed, and return the headline metric on the test data."""
    from mixling import RunConfig, fit, read_data
    from mixling.config import parse
    from mixling.tasks import task_type

    resolved = parse(RunConfig, {**config, "train": {**config["train"], "seed": seed}}, where="run.json")
    fit(resolved, *read_data(resolved, spool_dir=None, log=print), folder=folder)
    report = folder / "test.json"
    run("evaluate", folder, options.test, "-o", report)
    return float(json.loads(report.read_bytes())[task_type(resolved.task).metric])


if __name__ == "__main__":
    main()
