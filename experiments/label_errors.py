"""Does `mixling audit` find labels that are wrong? A fraction of SNIPS' training labels is replaced by others.

No paper; confident learning is Northcutt et al. (JAIR 2021). Each seed replaces other labels, uniformly by one of the
other labels, and audits all training examples. The examples with the lowest probability of their own label should be
those that were replaced: AUROC, and precision among as many as were replaced. SNIPS has wrong labels of its own, which
count as mistakes here.

    python experiments/label_errors.py --data ../shared/data

Results go to results/label_errors.json, an item for each seed. Validation and test examples are not read.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.metrics import roc_auc_score
from text_sets import load

from mixling import Dataset, Example
from mixling.audit.audit import audit
from mixling.provenance import provenance
from mixling.storage import write_json

OUT = Path(__file__).parent / "results" / "label_errors.json"


def with_errors(examples: Dataset, fraction: float, seed: int) -> tuple[Dataset, np.ndarray]:
    """Return the examples with some labels replaced, and which (n,)."""
    rng = np.random.default_rng(seed)
    names = sorted({str(target) for target in examples.targets})
    wrong = np.zeros(len(examples), bool)
    wrong[rng.choice(len(examples), round(fraction * len(examples)), replace=False)] = True
    rows = []
    for example, replaced in zip(examples, wrong, strict=True):
        label = rng.choice([name for name in names if name != example.target]) if replaced else example.target
        rows.append(Example(example.text, str(label), example.path, example.line))
    return Dataset.from_examples(rows), wrong


def evaluated(name: str, fraction: float, folds: int, seed: int, data: Path) -> dict[str, Any]:
    """Return how well the replaced labels are found."""
    train, _, _ = load(name, data)
    examples, wrong = with_errors(train, fraction, seed)
    began, cpu = time.perf_counter(), time.process_time()
    found = audit(examples, folds=folds, seed=seed)
    seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
    top = np.argsort(found.quality, kind="stable")[: wrong.sum()]
    first = found.ranked()[:50]
    return {
        "set": name,
        "fraction": fraction,
        "folds": folds,
        "seed": seed,
        "examples": len(examples),
        "auroc": round(float(roc_auc_score(wrong, -found.quality)), 4),
        "precision_at_replaced": round(float(wrong[top].mean()), 4),
        "precision_at_50": round(float(wrong[first].mean()), 4),
        "stated_precision_at_50": round(found.precision(50, fraction), 4),
        "likely_errors": int(found.errors.sum()),
        "likely_errors_precision": round(float(wrong[found.errors].mean()), 4),
        "likely_errors_recall": round(float(found.errors[wrong].mean()), 4),
        "accuracy": round(found.metrics.numbers()["accuracy"], 4),
        "baseline_accuracy": round(found.baseline, 4),
        "seconds": round(seconds, 1),
        "cpu_seconds": round(cpu, 1),
    }


def main() -> None:
    """Audit, evaluate, and add it to the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--set", default="snips")
    parser.add_argument("--fraction", type=float, default=0.05)
    parser.add_argument("--folds", type=int, default=5)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args()
    torch.set_num_threads(1)
    for seed in options.seeds:
        made = provenance(seed=seed)
        line = evaluated(options.set, options.fraction, options.folds, seed, options.data)
        print(json.dumps(line), flush=True)
        lines = json.loads(options.out.read_text()) if options.out.exists() else []
        same = ("set", "fraction", "folds", "seed")
        lines = [old for old in lines if any(old[key] != line[key] for key in same)]
        write_json(options.out, [*lines, {**line, "provenance": made}])


if __name__ == "__main__":
    main()
