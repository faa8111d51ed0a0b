"""Can the probabilities of a default model be relied on? Calibration, abstention, out-of-scope texts, conformal sets.

No paper. A model of `mixling train` for each set and seed. Its thresholds are those that `--abstain-at` and
`--out-of-scope` choose on the validation examples, by predictions of a model that has not seen them: the saved model's
n-gram branch has. The test examples are read once. For the conformal coverage, they are divided at random into halves,
100 times: sets are fitted on one half and counted on the other.

    python experiments/trust.py --data ../shared/data snips clinc150 --seeds 0 1 2
    python experiments/trust.py --data ../shared/data imdb --seeds 0            # some 20 minutes of a core
    python experiments/trust.py --table

Results go to results/trust.json, an item for each set and seed; README.md beside this file has the tables.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np
import torch
from tables.markdown import as_markdown, fraction

from mixling import Dataset, Predictor, fit
from mixling.answers import Method, fit_conformal
from mixling.data import ColumnsConfig, read_unlabeled
from mixling.metrics import Metrics, calibration_error, out_of_scope_report
from mixling.metrics.reliability import reliability
from mixling.provenance import provenance
from mixling.runs.resolve import LABELS, resolve
from mixling.runs.run import Run
from mixling.storage import write_json
from mixling.tasks import Classification

OUT = Path(__file__).parent / "results" / "trust.json"
WANTED = (0.95, 0.99)
COVERAGES = (0.9, 0.95, 0.99)
METHODS: tuple[Method, ...] = ("lac", "aps")
SPLITS = 100
TRIED = {"clinc150": ("oos_val", "oos_test")}  # texts that no label fits: to choose by, and to measure


class Scored:
    """The probabilities (B, C) of examples, their targets (B,), and which answers are right (B,)."""

    def __init__(self, predictor: Predictor, examples: Dataset) -> None:
        self.probabilities = predictor.predict_proba(list(examples.texts))
        self.targets = predictor.labels.ids(examples.targets)
        self.right = self.probabilities.argmax(1) == self.targets
        self.top = self.probabilities.max(1)


def trained(parts: Sequence[Dataset], seed: int, other: Sequence[Path], folder: Path) -> Run[Metrics]:
    """Return a run with the defaults of `mixling train`."""
    values = {"task": "classification", "train": {"seed": seed}, "decisions": {"out_of_scope": tuple(map(str, other))}}
    run = fit(resolve(values, spec=LABELS).for_examples(parts[0]).config, parts[0], parts[1], folder=folder)
    assert run is not None
    return run


def abstention(chosen: Mapping[str, Any], test: Scored) -> dict[str, Any]:
    """Return what a threshold does on validation, where it was chosen, and on test."""
    if chosen["threshold"] is None:
        return {"wanted": chosen["wanted"], "threshold": None, "highest": round(chosen["accuracy"], 4)}
    answered = test.top >= chosen["threshold"]
    found = {
        "threshold": chosen["threshold"],
        "validation_coverage": chosen["coverage"],
        "validation_accuracy": chosen["accuracy"],
        "coverage": answered.mean(),
        "accuracy": test.right[answered].mean(),
    }
    return {"wanted": chosen["wanted"], **{name: round(float(value), 4) for name, value in found.items()}}


def out_of_scope(predictor: Predictor, texts: Path, test: Scored) -> Any:
    """Return what the threshold of `--out-of-scope` does on the test examples and on other out-of-scope texts."""
    options: dict[str, Any] = {"reader": Classification.reader, "columns": ColumnsConfig()}
    other = predictor.predict_proba(list(read_unlabeled([str(texts)], **options))).max(1)
    threshold = predictor.metadata.threshold
    assert threshold is not None
    report = out_of_scope_report(test.top, other, threshold=threshold)
    assert report.false_accept_rate is not None
    answered = test.top >= threshold
    found = {
        "threshold": threshold,
        "auroc": report.auroc,
        "rejected_out_of_scope": 1 - report.false_accept_rate,
        "false_accept_rate_at_95": report.false_accept_rate_at_95,
        "coverage": answered.mean(),
        "accuracy_of_answered": test.right[answered].mean(),
        "right_in_scope": (answered & test.right).mean(),
    }
    return {"texts": report.texts, **{name: round(float(value), 4) for name, value in found.items()}}


def conformal(test: Scored, method: Method, coverage: float) -> dict[str, Any]:
    """Return the mean coverage over random halves, and the 99% interval of one half's by the binomial distribution."""
    rng, found, sizes = np.random.default_rng(0), [], []
    half = len(test.targets) // 2
    for _ in range(SPLITS):
        order = rng.permutation(len(test.targets))
        fitted, rest = order[:half], order[half:]
        sets = fit_conformal(test.probabilities[fitted], test.targets[fitted], method=method, coverage=coverage)
        members = sets.members(test.probabilities[rest])
        found.append(members[np.arange(len(rest)), test.targets[rest]].mean())
        sizes.append(members.sum(1).mean())
    band = NormalDist().inv_cdf(0.995) * math.sqrt(coverage * (1 - coverage) / (len(test.targets) - half))
    return {
        "method": method,
        "wanted": coverage,
        "mean_coverage": round(float(np.mean(found)), 4),
        "band": [round(coverage - band, 4), round(min(coverage + band, 1), 4)],
        "mean_size": round(float(np.mean(sizes)), 3),
    }


def measure(name: str, data: Path, seed: int) -> dict[str, Any]:
    """Train a model, and return all metrics of it."""
    from text_sets import load  # beside this file

    parts = load(name, data)
    began = time.process_time()
    other = [data / name / f"{split}.jsonl.gz" for split in TRIED.get(name, ())]
    with tempfile.TemporaryDirectory() as folder:
        run = trained(parts, seed, other[:1], Path(folder) / "run")
        seconds = time.process_time() - began
        predictor = Predictor(run.folder)
        test = Scored(predictor, parts[2])
        curve = {item["wanted"]: item for item in run.report["risk_coverage"]}
        out: dict[str, Any] = {
            "training_cpu_seconds": round(seconds),
            "validation_examples": len(parts[1]),
            "validation_accuracy": round(run.metrics.numbers()["accuracy"], 4),
            "test_examples": len(test.targets),
            "accuracy": round(float(test.right.mean()), 4),
            "calibration_error": round(calibration_error(reliability(test.right, test.top)), 4),
            "abstention": [abstention(curve[wanted], test) for wanted in WANTED],
            "conformal": [conformal(test, method, coverage) for method in METHODS for coverage in COVERAGES],
        }
        if other:
            out["out_of_scope"] = out_of_scope(predictor, other[1], test)
    return out


def accuracies(lines: list[dict[str, Any]]) -> str:
    """Return the table of accuracy, calibration and abstention: means over the seeds of each set."""
    rows = [["set (seeds)", "accuracy", "calibration error", *(f"wanted {w:g}: answered, right" for w in WANTED)]]
    for name, found in _by_set(lines).items():
        rows.append([f"{name} ({len(found)})", _mean(found, "accuracy"), _mean(found, "calibration_error")])
        for number in range(len(WANTED)):
            chosen = [line["abstention"][number] for line in found]
            rows[-1].append(f"{_mean(chosen, 'coverage')}, {_mean(chosen, 'accuracy')}")
    return as_markdown(rows)


def coverages(lines: list[dict[str, Any]]) -> str:
    """Return the table of conformal sets: means over the seeds of each set."""
    rows = [["set", "method", *(f"wanted {c:g}: covered, labels" for c in COVERAGES)]]
    for name, found in _by_set(lines).items():
        items = [item for line in found for item in line["conformal"]]
        for method in METHODS:
            rows.append([name, method.upper()])
            for coverage in COVERAGES:
                fitted = [item for item in items if (item["method"], item["wanted"]) == (method, coverage)]
                size = statistics.mean(item["mean_size"] for item in fitted)
                rows[-1].append(f"{_mean(fitted, 'mean_coverage')}, {size:.2f}")
    return as_markdown(rows)


def _by_set(lines: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    sets = dict.fromkeys(line["set"] for line in lines)
    return {name: [line for line in lines if line["set"] == name] for name in sets}


def _mean(lines: Iterable[Mapping[str, float]], key: str) -> str:
    return fraction(statistics.mean(line[key] for line in lines))


def main() -> None:
    """Train and measure, and add it to the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sets", nargs="*")
    parser.add_argument("--table", action="store_true", help="print the tables of the results")
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args()
    if options.table:
        lines = json.loads(options.out.read_text())
        print(f"{accuracies(lines)}\n\n{coverages(lines)}")
        return
    torch.set_num_threads(1)
    for name in options.sets:
        for seed in options.seeds:
            made = provenance(seed=seed)
            line = {"set": name, "seed": seed, **measure(name, options.data, seed)}
            print(json.dumps(line), flush=True)
            lines = json.loads(options.out.read_text()) if options.out.exists() else []
            lines = [old for old in lines if (old["set"], old["seed"]) != (name, seed)]
            write_json(options.out, [*lines, {**line, "provenance": made}])


if __name__ == "__main__":
    main()
