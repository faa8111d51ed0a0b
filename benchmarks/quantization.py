"""How often the 8-bit model of a small run is refused: short trainings on 1,500 rows, one for each seed.

The decision of `mixling train` is compared with that of the two limits alone, without the tests for chance.

    python benchmarks/gate.py --data ../shared/data
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from mixling.export import MAX_ACCURACY_DROP, MIN_AGREEMENT
from mixling.provenance import provenance
from mixling.storage import write_json


def main() -> None:
    """Write benchmarks/results/quantization.json."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder that holds sst2_glue")
    parser.add_argument("--rows", type=int, default=1500)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "quantization.json")
    args = parser.parse_args()
    origin = provenance(seed=0)
    with gzip.open(args.data / "sst2_glue" / "train.jsonl.gz", "rt") as file:
        lines = file.readlines()
    runs = [trained(lines, args.rows, seed) for seed in range(args.seeds)]
    refused = sum(run["precision"] == "float32" for run in runs)
    by_limits = sum(run["agreement"] < MIN_AGREEMENT or run["accuracy_drop"] > MAX_ACCURACY_DROP for run in runs)
    counts = {"refused": refused, "beyond_the_limits_alone": by_limits}
    write_json(args.out, {**origin, "rows": args.rows, **counts, "runs": runs})
    print(json.dumps(counts))


def trained(lines: list[str], rows: int, seed: int) -> dict[str, Any]:
    """Precision and gate of a run on rows that the seed draws."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "rows.jsonl").write_text("".join(random.Random(seed).sample(lines, rows)))
        command = ["train", str(folder / "rows.jsonl"), "--seed", str(seed)]
        command += ["--test-fraction", "0", "-o", str(folder / "run")]
        subprocess.run([sys.executable, "-m", "mixling", *command], check=True, capture_output=True)
        report = json.loads((folder / "run" / "metrics.json").read_text())
        return {
            "seed": seed,
            "precision": report["precision"],
            **report["quantization"],
            "accuracy": report["validation"]["accuracy"],
        }


if __name__ == "__main__":
    main()
