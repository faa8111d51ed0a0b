"""Memory of training encoder-decoders: the greatest resident size of `mixling train`, one process for each model.

    OMP_NUM_THREADS=2 python benchmarks/memory.py ../shared/data/cogs/train.jsonl.gz

Each model is trained for a few steps on the longest rows, in batches of 64 (what the command takes) and 128, measured
and saved as by a user, and its process reports its peak memory (with libraries and rows). Written to
benchmarks/results/memory.json.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from pathlib import Path

from mixling.data import OnBadRow
from mixling.provenance import provenance
from mixling.research.seq2seq import SEQ2SEQ_PRESETS, PairColumns, read_pairs
from mixling.storage import write_json

LIMIT = 4.0  # GB, of the models of 10 million parameters
MODELS = [name for name in SEQ2SEQ_PRESETS if name.endswith("-10m")]


def train(rows: Path, model: str, batch_size: int, steps: int, folder: Path) -> tuple[int, float]:
    """Parameters, and the most memory in GB."""
    out = folder / f"{model}-{batch_size}"
    sizes = ("model.max_source_len=64", "model.max_target_len=256", f"train.batch_size={batch_size}")
    training = (
        f"train.steps={steps}",
        "train.evaluations=1",
        "tasks.0.validation_fraction=0.01",
        "generation.max_len=64",
    )
    changes = [item for change in (*sizes, *training) for item in ("--set", change)]
    command = [sys.executable, "-m", "mixling", "train", str(rows), "--model", model, "-o", str(out), *changes]
    _, status, usage = os.wait4(os.spawnv(os.P_NOWAIT, sys.executable, command), 0)
    if status:
        sys.exit(f"{' '.join(command)}: ended with {status}")
    parameters = json.loads((out / "metrics.json").read_text())["parameters"]
    return parameters, round(usage.ru_maxrss * 1024 / 1e9, 3)


def main() -> None:
    """Train, print and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", type=Path)
    parser.add_argument("--models", nargs="+", choices=SEQ2SEQ_PRESETS, default=MODELS)
    parser.add_argument("--batch-sizes", type=int, nargs="+", default=[64, 128])
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "memory.json")
    options = parser.parse_args()
    made = provenance(seed=0)
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        pairs = read_pairs([options.rows], columns=PairColumns(), on_bad_row=OnBadRow("error"))
        longest = sorted(pairs, key=lambda pair: -len(pair.source + str(pair.target)))[
            : max(options.batch_sizes) * options.steps
        ]
        rows = Path(folder) / "rows.jsonl"
        rows.write_text("".join(json.dumps({"source": p.source, "target": p.target}) + "\n" for p in longest), "utf-8")
        for model in options.models:
            sizes = {}
            for size in options.batch_sizes:
                parameters, sizes[str(size)] = train(rows, model, size, options.steps, Path(folder))
                print(f"| {model} | {parameters:,} | {size} | {sizes[str(size)]:.2f} GB |", flush=True)
            found[model] = {"parameters": parameters, "gigabytes": sizes}
    settings = {"rows": options.rows.name, "steps": options.steps, "limit": LIMIT}
    write_json(options.out, {**made, "settings": settings, "models": found})


if __name__ == "__main__":
    main()
