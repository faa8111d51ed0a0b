"""The networks of `mixling train` by backend: native steps beside PyTorch's, with the same seeds, on public data.

    OMP_NUM_THREADS=1 python benchmarks/backends.py --data ../shared/data
    OMP_NUM_THREADS=1 python benchmarks/backends.py --data ../shared/data --sets sst2 --rows 1500 --seeds 0 1 2 3

Each is one command with the defaults, but without the n-gram branch, which would hide differences of the network. Both
backends see the same batches with the same changes of texts, in the same order, from the same initial weights: what
differs is rounding, in an order of sums of its own. The measures are those of the best evaluation on the validation
examples during training, and `calibrated_loss` the log-loss there of the saved file. `difference` is native's minus
PyTorch's, as a mean over seeds with its standard error, beside the `deviation` over the seeds of PyTorch's alone: what
chance is worth.
"""

from __future__ import annotations

import argparse
import gzip
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from mixling.provenance import provenance
from mixling.storage import write_json

BACKENDS = ("torch", "native")
# Folder, validation file, rows to train on (None: all), options, and what is measured.
SETS: dict[str, tuple[str, str, int | None, tuple[str, ...], str]] = {
    "snips": ("snips", "dev", None, ("--text", "tokens", "--label", "intent"), "accuracy"),
    "clinc150": ("clinc150", "val", None, (), "accuracy"),
    "sst2": ("sst2_glue", "dev", 6_000, (), "accuracy"),
    "mtop": ("mtop_en", "dev", None, ("--task", "tagging"), "span_f1"),
    "mrpc": ("mrpc", "dev", None, ("--text-pair", "text_pair"), "accuracy"),
    "stsb": ("stsb", "dev", None, ("--text-pair", "text_pair", "--task", "regression"), "pearson"),
}


def trained(name: str, data: Path, rows: int | None, seed: int, backend: str, options: list[str]) -> dict[str, float]:
    """The measures of the best evaluation of a training."""
    folder, validation, most, columns, metric = SETS[name]
    rows = rows or most
    with tempfile.TemporaryDirectory() as place:
        train = Path(place) / "train.jsonl"
        with gzip.open(data / folder / "train.jsonl.gz", "rt", encoding="utf-8") as file:
            train.write_text(
                "".join(line for number, line in enumerate(file) if rows is None or number < rows), "utf-8"
            )
        words = ["train", train, "--validation", data / folder / f"{validation}.jsonl.gz", *columns]
        words += ["-o", Path(place) / "run", "--seed", seed, "--set", f"train.backend={backend}"]
        words += ["--set", "ngrams.use=never", *options]
        done = subprocess.run(
            [sys.executable, "-m", "mixling", *map(str, words)], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        lines = (Path(place) / "run" / "metrics.jsonl").read_text("utf-8").splitlines()
        saved = json.loads((Path(place) / "run" / "metrics.json").read_text("utf-8"))
    calibrated = saved["validation"].get("log_loss")
    best = [record for record in map(json.loads, lines) if record["best"]][-1]
    out = {metric: best[f"val_{metric}"], "loss": best["val_loss"], "step": best["step"]}
    return out if calibrated is None else {**out, "calibrated_loss": calibrated}


def compared(runs: dict[str, dict[str, dict[str, float]]], metric: str) -> dict[str, Any]:
    """Means by backend, and paired differences, of runs by seed and backend."""
    out: dict[str, Any] = {}
    first = next(iter(runs.values()))["native"]
    for key in (key for key in (metric, "loss", "calibrated_loss") if key in first):
        columns = {backend: [run[backend][key] for run in runs.values()] for backend in BACKENDS}
        away = [ours - theirs for ours, theirs in zip(columns["native"], columns["torch"], strict=True)]
        several = len(away) > 1
        out[key] = {
            **{backend: round(statistics.mean(values), 4) for backend, values in columns.items()},
            "difference": round(statistics.mean(away), 4),
            "standard_error": round(statistics.stdev(away) / len(away) ** 0.5, 4) if several else None,
            "deviation": round(statistics.stdev(columns["torch"]), 4) if several else None,
        }
    return out


def main() -> None:
    """Train, and write after each pair."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--sets", nargs="+", choices=SETS, default=list(SETS))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--rows", type=int, help="train on the first of them only; the line is SET-ROWS")
    parser.add_argument("--set", action="append", default=[], help="further options of the command, for both backends")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "backends.json")
    options = parser.parse_args()
    results: dict[str, Any] = json.loads(options.out.read_text()) if options.out.exists() else {}
    further = [word for value in options.set for word in ("--set", value)]
    made = {**provenance(seed=0), "settings": {"set": options.set}}
    for name in options.sets:
        runs: dict[str, dict[str, dict[str, float]]] = {}
        for seed in options.seeds:
            runs[str(seed)] = {
                backend: trained(name, options.data, options.rows, seed, backend, further) for backend in BACKENDS
            }
            line = name if options.rows is None else f"{name}-{options.rows}"
            results[line] = {**compared(runs, SETS[name][4]), "runs": runs, "provenance": made}
            write_json(options.out, results)
            print(name, seed, json.dumps(runs[str(seed)]), flush=True)
        print(line, json.dumps({key: one for key, one in results[line].items() if key not in ("runs", "provenance")}))


if __name__ == "__main__":
    main()
