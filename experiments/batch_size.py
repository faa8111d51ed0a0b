"""Examples per step: what larger batches cost in accuracy and save in time, for the models that `mixling train` takes.

No paper. The model is the one that is chosen for the examples, without its n-gram branch, which no batch changes; all
other options are the defaults, and those given with +KEY=VALUE. Only training and validation examples are read.

    python experiments/batch_size.py --data ../shared/data snips clinc150 sst2 --sizes 64 256 256+train.optim.lr=3e-3

Results go to results/batch_size.json, one item for each set, batch size and seed; those in the file are kept.
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

from mixling import fit
from mixling.config import read_overrides
from mixling.provenance import provenance
from mixling.runs.resolve import LABELS, resolve
from mixling.storage import write_json

OUT = Path(__file__).parent / "results" / "batch_size.json"


def trained(name: str, size: str, seed: int, data: Path) -> dict[str, Any]:
    """Return the network's accuracy and loss on validation examples, and the CPU seconds of the run."""
    train, validation, _ = load(name, data)
    number, *overrides = size.split("+")
    values = {
        "task": "classification",
        "train": {"batch_size": int(number), "seed": seed, "device": "cpu"},
        "ngrams": {"use": "never"},
    }
    chosen = resolve(values, spec=LABELS, overrides=read_overrides(overrides)).for_examples(train)
    begin = time.process_time()
    with tempfile.TemporaryDirectory() as folder:
        run = fit(chosen.config, train, validation, folder=Path(folder) / "run")
    assert run is not None
    return {
        "set": name,
        "batch_size": size,
        "seed": seed,
        "examples": len(train),
        "cpu_s": round(time.process_time() - begin, 1),
        "epoch": run.best["epoch"],
        "val_accuracy": run.best["val_accuracy"],
        "val_loss": run.best["val_loss"],
    }


def main() -> None:
    """Train, and write after each training."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sets", nargs="+", choices=sorted(SETS))
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--sizes", nargs="+", default=["64", "256"])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args()
    torch.set_num_threads(1)
    made = provenance(seed=0)
    items = json.loads(options.out.read_text())["results"] if options.out.exists() else []
    done = {(item["set"], item["batch_size"], item["seed"]) for item in items}
    for seed in options.seeds:
        for name in options.sets:
            for size in options.sizes:
                if (name, size, seed) in done:
                    continue
                items.append(trained(name, size, seed, options.data))
                print(json.dumps(items[-1]), flush=True)
                write_json(options.out, {**made, "results": items})


if __name__ == "__main__":
    main()
