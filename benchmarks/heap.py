"""Memory of training a classifier on long texts: the greatest resident size of `mixling train`, and its time.

    python benchmarks/heap.py ../shared/data/imdb/train.jsonl.gz

One process trains what the command takes for the rows, for as many steps as a minute of an idle core has, measures and
saves it; the operating system counts its greatest memory and its processor time. With `--against`, the sources of
another version do the same beside it. Written to benchmarks/results/heap.json.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from pathlib import Path

from mixling.cost import provenance
from mixling.storage import write_json

LIMIT = 2.2  # GB, for 34 MB of text


def train(rows: Path, steps: int, sources: Path | None, folder: Path) -> dict[str, float]:
    """The greatest memory in GB, seconds of the processor, and the loss on validation."""
    changes = [f"train.steps={steps}", "train.evaluations=2"]
    command = [sys.executable, "-m", "mixling", "train", str(rows), "-o", str(folder)]
    command += [item for change in changes for item in ("--set", change)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    if sources is not None:
        environment["PYTHONPATH"] = str(sources)
    _, status, usage = os.wait4(os.spawnve(os.P_NOWAIT, sys.executable, command, environment), 0)
    if status:
        sys.exit(f"{' '.join(command)}: ended with {status}")
    last = json.loads((folder / "metrics.jsonl").read_text().splitlines()[-1])
    return {
        "peak_gigabytes": round(usage.ru_maxrss * 1024 / 1e9, 3),
        "user_seconds": round(usage.ru_utime, 1),
        "system_seconds": round(usage.ru_stime, 1),
        "val_loss": last["val_loss"],
    }


def main() -> None:
    """Train, print and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", type=Path)
    parser.add_argument("--steps", type=int, default=428)
    parser.add_argument("--against", type=Path, metavar="DIR", help="the src folder of another version")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "heap.json")
    options = parser.parse_args()
    made = provenance(seed=0)
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        for name in ("now", "before") if options.against else ("now",):
            sources = options.against if name == "before" else None
            found[name] = train(options.rows, options.steps, sources, Path(folder) / name)
            print(f"{name}: {found[name]}", flush=True)
    made["command"] = made["command"].replace(str(options.against), "DIR")
    write_json(options.out, {**made, "rows": options.rows.name, "steps": options.steps, "limit": LIMIT, "runs": found})


if __name__ == "__main__":
    main()
