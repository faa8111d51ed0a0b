"""Tune on a data set, time the search, and compare the tuned with the default configuration on test data.

    python benchmarks/tuning.py search snips --jobs 2    # two cores, 10 to 15 minutes
    python benchmarks/tuning.py test snips               # one core
    python benchmarks/tuning.py search mrpc --jobs 2
    python benchmarks/tuning.py test mrpc

`search` is `mixling tune` with the training and validation data; its wall time and the CPU time of all its processes
are recorded. MRPC has no validation file: `mixling tune` separates a tenth of the training examples.
`test` trains the best configuration of the search and the default one with each seed, on the training examples, and
reads the test data once, by these models. MRPC's test labels are not public: its validation file is the test.
The interval of the difference is a paired bootstrap over the rows of the test data, of the mean over seeds.
"""

from __future__ import annotations

import argparse
import csv
import json
import resource
import statistics
import subprocess
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from mixling.provenance import provenance
from mixling.storage import write_json
from mixling.tuning import TRIALS_FOLDER, read_plan

RESULTS = Path(__file__).parent / "results"
DEFAULT = "default"


class Set(NamedTuple):
    """Files without .jsonl.gz, and the options of the columns."""

    validation: str | None
    test: str
    columns: tuple[str, ...]


SETS = {
    "snips": Set("dev", "test", ("--text", "tokens", "--label", "intent")),
    "mrpc": Set(None, "dev", ("--text", "text", "--text-pair", "text_pair", "--label", "label")),
}


def main() -> None:
    """Search, or compare on the test data."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("search", "test"))
    parser.add_argument("set", choices=SETS)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--trials", type=int, default=40)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--runs", type=Path, default=Path("runs/tuning"))
    parser.add_argument("--out", type=Path, help="by default results/tuning_SET.json")
    options = parser.parse_args()
    {"search": search, "test": test}[options.what](options, options.runs / options.set)


def search(options: argparse.Namespace, folder: Path) -> None:
    """Run `mixling tune`, and record its time."""
    origin = provenance(seed=0, packages=("optuna",))
    about, data = SETS[options.set], options.data / options.set
    words = ["tune", data / "train.jsonl.gz", *about.columns, "--trials", options.trials, "--jobs", options.jobs]
    if about.validation is not None:
        words += ["--validation", data / f"{about.validation}.jsonl.gz"]
    begin, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-m", "mixling", *map(str, words), "-o", folder / "search"], check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    found = {"seconds": round(time.perf_counter() - begin, 1), "cpu_seconds": round(cpu, 1)}
    write_json(folder / "search.json", {"provenance": origin, "trials": options.trials, "jobs": options.jobs, **found})


def test(options: argparse.Namespace, folder: Path) -> None:
    """Train the best and the default configuration with each seed, and write what they reach on the test data."""
    origin = provenance(seed=options.seeds[0], packages=("optuna",))
    plan = read_plan(folder / "search")
    trials = read_trials(folder / "search", less_is_better=plan.less_is_better)
    best = trials[0]
    default = next(row for row in trials if row["trial"] == DEFAULT and row["model"] == best["model"])
    numbers: dict[str, list[dict[str, float]]] = {}
    hits: dict[str, list[npt.NDArray[np.float64]]] = {}
    for name, row in {"default": default, "tuned": best}.items():
        trial = row["trial"] if row["trial"] == DEFAULT else f"{int(row['trial']):04}"
        config = json.loads((folder / "search" / TRIALS_FOLDER / row["model"] / trial / "run.json").read_bytes())
        for seed in options.seeds:
            found, correct = measure(config["config"], seed, options, folder / f"{name}-{seed}")
            print(name, seed, found, flush=True)
            numbers.setdefault(name, []).append({"seed": seed, **found})
            hits.setdefault(name, []).append(correct)
    from mixling.metrics import resampled

    ahead = np.mean(hits["tuned"], axis=0) - np.mean(hits["default"], axis=0)
    result: dict[str, Any] = {
        "provenance": origin,
        "set": options.set,
        "search": json.loads((folder / "search.json").read_bytes()),
        "keys": list(plan.spaces[best["model"]]),
        "validation": {"default": default, "tuned": best},
        "test": numbers,
        "mean": {name: statistics.mean(one["accuracy"] for one in each) for name, each in numbers.items()},
        "difference": {"mean": float(ahead.mean()), **asdict(resampled(ahead))},
        "test_rows": len(ahead),
    }
    write_json(options.out or RESULTS / f"tuning_{options.set}.json", result)
    print(json.dumps({key: value for key, value in result.items() if key != "provenance"}, indent=2))


def read_trials(folder: Path, *, less_is_better: bool) -> list[dict[str, str]]:
    """Return the complete trials, the best first; of equal ones that with the lowest loss."""
    metric = 3  # the column of the metric
    with open(folder / "trials.csv", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["state"] == "complete"]
    name = list(rows[0])[metric]
    sign = 1 if less_is_better else -1
    return sorted(rows, key=lambda row: (sign * float(row[name]), float(row["loss"])))


def measure(
    config: dict[str, Any], seed: int, options: argparse.Namespace, folder: Path
) -> tuple[dict[str, float], npt.NDArray[np.float64]]:
    """Train a configuration with a seed, unless that is done; return test metrics, and which rows are right."""
    from mixling import Dataset, Predictor, RunConfig, fit, read_data, read_examples
    from mixling.config import parse
    from mixling.data import OnBadRow
    from mixling.runs import evaluate

    resolved = parse(RunConfig, {**config, "train": {**config["train"], "seed": seed}}, where="run.json")
    if not (folder / "model.onnx").exists():
        fit(resolved, *read_data(resolved, spool_dir=None, log=print), folder=folder)
    predictor = Predictor(folder / "model.onnx")
    path = options.data / options.set / f"{SETS[options.set].test}.jsonl.gz"
    columns = resolved.data.columns
    rows = read_examples([path], reader=predictor.task.reader, columns=columns, on_bad_row=OnBadRow("error"))
    examples = Dataset.from_examples(rows)
    metrics = evaluate(predictor, examples).metrics.numbers()
    answers = [prediction.label for prediction in predictor.predict_stream(examples.texts)]
    correct = np.array([answer == target for answer, target in zip(answers, examples.targets, strict=True)], float)
    return {key: round(float(value), 5) for key, value in metrics.items()}, correct


if __name__ == "__main__":
    main()
