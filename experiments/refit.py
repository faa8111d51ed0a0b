"""Does it pay to train anew on all labeled examples, once validation has chosen the number of epochs?

No paper. Each training set is cut to some examples per label, a tenth of them is set aside as in `mixling train`, and
models with and without `--refit` are evaluated on the set's own validation examples, which neither reads: for SST-2 a
tenth of the training examples, held out first. Test is not read.

    python experiments/refit.py --data ../shared/data snips:10 snips:50 clinc150:10 sst2:50 sst2:500 sst2:all

Results go to results/refit.json, one item for each set and seed, with the CPU seconds of both trainings.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
from text_sets import SETS, load

from mixling import Predictor, fit
from mixling.data import few_per_label, split_validation
from mixling.provenance import provenance
from mixling.runs.resolve import LABELS, resolve
from mixling.storage import write_json
from mixling.tasks import Classification

OUT = Path(__file__).parent / "results" / "refit.json"


def evaluated(name: str, count: str, seed: int, data: Path) -> dict[str, Any]:
    """Return the accuracy of both models on held-out examples, and the cost of their training."""
    full, held_out, _ = load(name, data)
    chosen = full if count == "all" else few_per_label(full, int(count), seed=seed)
    train, validation = split_validation(chosen, fraction=0.1, seed=seed)
    task = Classification(Classification.label_set(full))
    texts, targets = list(held_out.texts), list(held_out.targets)
    out: dict[str, Any] = {"set": name, "count": count, "examples": len(chosen), "seed": seed}
    for variant, refit in (("plain", False), ("refit", True)):
        values = {"task": "classification", "train": {"seed": seed}, "ngrams": {"refit": True}}
        resolved = resolve(values, spec=LABELS, overrides={"decisions": {"refit": refit}})
        config = resolved.for_examples(train).config
        with tempfile.TemporaryDirectory() as folder:
            began = time.process_time()
            run = fit(config, train, validation, folder=Path(folder) / "run")
            assert run is not None
            seconds = time.process_time() - began
            predictor = Predictor(Path(folder) / "run", num_threads=1)
            labels = [prediction.label for prediction in predictor.predict_stream(texts)]
        score = task.score(targets, labels).numbers["accuracy"]
        out[variant] = {"accuracy": round(score, 5), "cpu_seconds": round(seconds, 1), "best": run.best["epoch"]}
    return out


def main() -> None:
    """Train, evaluate, and add it to the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sets", nargs="+", metavar="SET:COUNT|all", help=f"sets of {', '.join(SETS)}")
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args()
    torch.set_num_threads(1)
    for item in options.sets:
        name, _, count = item.partition(":")
        for seed in options.seeds:
            made = provenance(seed=seed)
            line = {**evaluated(name, count, seed, options.data), "provenance": made}
            print(json.dumps({key: value for key, value in line.items() if key != "provenance"}), flush=True)
            lines = json.loads(options.out.read_text()) if options.out.exists() else []
            same = ("set", "count", "seed")
            lines = [old for old in lines if any(old[key] != line[key] for key in same)]
            write_json(options.out, [*lines, line])


if __name__ == "__main__":
    main()
