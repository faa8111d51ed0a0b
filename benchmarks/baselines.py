"""The baseline to beat: TF-IDF and logistic regression, with the options chosen on validation and the test split read
once.

    python benchmarks/baselines.py --data ../shared/data --sets snips clinc150 sst2_glue \
        --out benchmarks/results/baselines.json

Features are word 1-2-grams, alone or with character 2-5-grams inside words; C runs over a small grid: the baseline of
`mixling compare`, which measures our models beside it. Of equal accuracy on validation the smaller model wins: words
alone, then the smaller C. What was fitted on the training rows for validation is what is tested: validation is never
trained on. `sst2_glue` has no test labels: its validation is the test, and 5% of its train is the validation.
"""

from __future__ import annotations

import argparse
import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.model_selection import train_test_split

from mixling.comparison import Baseline, choose, fit_tfidf
from mixling.provenance import provenance
from mixling.tasks import Classification

Rows = tuple[list[str], list[str]]  # texts, labels

SETS = ("snips", "clinc150", "sst2_glue")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="the folder that holds a folder for each set")
    parser.add_argument("--sets", nargs="+", choices=SETS, default=list(SETS))
    parser.add_argument("--out", type=Path, required=True, help="the JSON file to write")
    parser.add_argument("--seed", type=int, default=0, help="splits sst2_glue's train and seeds the solver")
    options = parser.parse_args()

    origin = provenance(seed=options.seed, packages=["scipy", "scikit-learn"])
    results = {name: evaluate(*load(options.data / name, options.seed), seed=options.seed) for name in options.sets}
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps({**origin, "sets": results}, indent=2) + "\n", "utf-8")


def load(folder: Path, seed: int) -> tuple[Rows, Rows, Rows]:
    """Train, validation and test of a set."""
    if folder.name == "snips":
        return read(folder / "train.jsonl.gz"), read(folder / "dev.jsonl.gz"), read(folder / "test.jsonl.gz")
    if folder.name == "clinc150":  # the in-scope rows; those out of scope stand in other files
        return read(folder / "train.jsonl.gz"), read(folder / "val.jsonl.gz"), read(folder / "test.jsonl.gz")
    texts, labels = read(folder / "train.jsonl.gz")
    train, validation, train_labels, validation_labels = train_test_split(
        texts, labels, test_size=0.05, random_state=seed, stratify=labels
    )
    return (train, train_labels), (validation, validation_labels), read(folder / "dev.jsonl.gz")


def read(path: Path) -> Rows:
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    if "tokens" in rows[0]:
        return [" ".join(row["tokens"]) for row in rows], [row["intent"] for row in rows]
    return [row["text"] for row in rows], [row["label"] for row in rows]


def evaluate(train: Rows, validation: Rows, test: Rows, *, seed: int) -> dict[str, Any]:
    """Fit every option on train, choose on validation, and only then score the test rows."""

    def evaluate_files(baseline: Baseline) -> float:
        value = accuracy(baseline, validation)
        print({**baseline.options, "val_accuracy": value, "fit_seconds": round(baseline.seconds, 1)}, flush=True)
        return value

    best, tried = choose(fit_tfidf(Classification, *train, seed=seed), evaluate_files)
    return {
        "rows": {"train": len(train[0]), "validation": len(validation[0]), "test": len(test[0])},
        "classes": len(set(train[1])),
        "chosen": {key: best.options[key] for key in ("features", "C")},
        "val_accuracy": max(one.validation for one in tried),
        "test_accuracy": accuracy(best, test),
        "fit_seconds": round(best.seconds, 1),
        "tried": [
            {
                "features": one.options["features"],
                "C": one.options["C"],
                "val_accuracy": one.validation,
                "fit_seconds": round(one.seconds, 1),
                "columns": one.options["columns"],
            }
            for one in tried
        ],
    }


def accuracy(baseline: Baseline, rows: Rows) -> float:
    """The share of right answers, of five decimals."""
    answers = baseline.predict(rows[0])
    return round(float(np.mean([answer == label for answer, label in zip(answers, rows[1], strict=True)])), 5)


if __name__ == "__main__":
    main()
