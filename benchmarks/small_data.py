"""The time of `mixling train` on few rows beside 2,500 rows, in two revisions that take turns, and what it buys.

    git worktree add ../before af772ff8
    (cd ../before && python setup.py -q build_ext --inplace)
    python benchmarks/small_data.py ../before . --data ../shared/data sst2_glue:100,400,1000,2000,2500
    python benchmarks/small_data.py - . --data ../shared/data sst2_glue:100,400,1000,2000,2500    # today's time alone

Each sample is a random part of the training rows. Both revisions train on it with their defaults, with one thread on
one core, one after the other. CPU seconds are those of the whole command. Accuracy, log-loss and calibration error are
those of the saved model on the set's test split (SST-2: its validation split, which GLUE labels), or with `--held-out`
on 3,000 other training rows, for choices. Needs Linux.

Written to benchmarks/results/small_data.json, one item for each set, size and sample; others are kept.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import tempfile
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np
from revisions import train
from side_by_side import arguments

from mixling import Predictor
from mixling.provenance import provenance
from mixling.storage import write_json
from training import Rows, read, write

TEST = {"sst2_glue": "dev", "snips": "test", "clinc150": "test"}
WHOLE = ("--set", "data.validation_fraction=0.1")  # the default; named, nothing is held out to test on
KEY = ("set", "rows", "sample", "held_out")
MEASURES = ("cpu_s", "accuracy", "log_loss", "calibration_error")


def parts(source: Path, number: int, sample: int, *, held_out: bool) -> tuple[Rows, Rows]:
    """A random part of the training rows, and the rows that models are judged on."""
    rows = read(source / "train.jsonl.gz")
    random.Random(f"{source.name} {sample}").shuffle(rows)
    return rows[:number], rows[number : number + 3000] if held_out else read(source / f"{TEST[source.name]}.jsonl.gz")


def judge(folder: Path, rows: Rows) -> dict[str, float]:
    """Accuracy, log-loss and calibration error (15 bins of the top probability) of a saved model."""
    model = Predictor(folder, num_threads=1)
    names = list(model.labels.names)
    found = model.predict_proba([text for text, _ in rows])
    gold = np.array([names.index(label) if label in names else -1 for _, label in rows])
    right, sure = found.argmax(1) == gold, found.max(1)
    given = np.where(gold >= 0, found[np.arange(len(rows)), gold], 0)
    bins = np.minimum((sure * 15).astype(int), 14)
    error = sum(abs(right[bins == i].sum() - sure[bins == i].sum()) for i in range(15)) / len(rows)
    log_loss = -np.log(np.maximum(given, 1e-6)).mean()
    return {"accuracy": float(right.mean()), "log_loss": float(log_loss), "calibration_error": float(error)}


def parser() -> argparse.ArgumentParser:
    assert __doc__ is not None
    out = arguments(__doc__, "small_data")
    out.add_argument("before", type=Path, help="a checkout whose extension modules are built; -: the other one alone")
    out.add_argument("after", type=Path, help="another one")
    out.add_argument("sets", nargs="+", metavar="SET:ROWS,ROWS,...", help=f"sets: {', '.join(TEST)}")
    out.add_argument("--data", type=Path, required=True, help="the folder of the data sets' folders")
    out.add_argument("--samples", nargs="+", type=int, default=[0, 1, 2, 3, 4])
    out.add_argument("--held-out", action="store_true", help="judge on other training rows, not on test rows")
    return out


def main() -> None:
    """Train sample by sample, so that all sizes of a sample are measured together, and write after each pair."""
    options = parser().parse_args()
    made = provenance()
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    trees = {"before": options.before.resolve(), "after": options.after.resolve()}
    if str(options.before) == "-":
        del trees["before"]
    commits = {
        label: subprocess.check_output(["git", "-C", str(tree), "rev-parse", "HEAD"], text=True).strip()
        for label, tree in trees.items()
    }
    results = json.loads(options.out.read_text(encoding="utf-8"))["results"] if options.out.exists() else []
    for sample in options.samples:
        for name, number in ((one.split(":")[0], int(n)) for one in options.sets for n in one.split(":")[1].split(",")):
            chosen, others = parts(options.data / name, number, sample, held_out=options.held_out)
            new: dict[str, Any] = dict(zip(KEY, (name, number, sample, options.held_out), strict=True))
            with tempfile.TemporaryDirectory() as folder:
                file = str(write(chosen, Path(folder) / "train.jsonl"))
                for label, tree in trees.items():
                    run = Path(folder) / label
                    spent = train(tree, [file, "--text", "text", "--label", "label", *WHOLE], run)["cpu_s"]
                    new[label] = {"commit": commits[label], "cpu_s": spent, **judge(run, others)}
            print(json.dumps(new), flush=True)
            results = [one for one in results if any(one[key] != new[key] for key in KEY)]
            results.append({**new, "provenance": made})
            write_json(options.out, {"results": results})
    for name, number in dict.fromkeys((one["set"], one["rows"]) for one in results):
        some = [one for one in results if (one["set"], one["rows"]) == (name, number)]
        for label in trees:
            values = (f"{key} {mean(one[label][key] for one in some if label in one):.3f}" for key in MEASURES)
            print(f"{name} {number:,} rows, {label}: {', '.join(values)} ({len(some)} samples)")


if __name__ == "__main__":
    main()
