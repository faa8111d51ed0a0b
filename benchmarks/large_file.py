"""Peak memory of training on a CSV that is larger than memory should be asked for.

    python benchmarks/large_file.py --data ../shared/data --gigabytes 5

Writes a CSV of that size (IMDB's labeled reviews again and again, each time cut at another word, so that rows differ)
into a temporary folder, runs `mixling train` on it with a time budget, and reports the process's peak resident memory,
the time to read and the rows read, in benchmarks/results/large_file.json.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from mixling.provenance import provenance


def write(path: Path, source: Path, size: int, seed: int) -> int:
    """Write rows until the file has `size` bytes; returns their number."""
    with gzip.open(source, "rt", encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    draw = random.Random(seed)
    count = 0
    with path.open("w", encoding="utf-8", newline="") as file:
        out = csv.writer(file)
        out.writerow(["text", "label"])
        while file.tell() < size:
            for row in rows:
                words = row["text"].split(" ")
                start = draw.randrange(max(1, len(words) // 2))
                out.writerow([" ".join(words[start:]), row["label"]])
            count += len(rows)
    return count


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--gigabytes", type=float, default=5.0)
    parser.add_argument("--time-budget", default="60s")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "large_file.json")
    options = parser.parse_args()
    made = provenance(seed=0)
    with tempfile.TemporaryDirectory() as folder:
        table, run = Path(folder) / "reviews.csv", Path(folder) / "model"
        rows = write(table, options.data / "imdb" / "train.jsonl.gz", int(options.gigabytes * 1e9), seed=0)
        command = [sys.executable, "-m", "mixling", "train", str(table), "-o", str(run)]
        begin = time.perf_counter()
        process = subprocess.Popen(
            [*command, "--time-budget", options.time_budget, "--set", "data.validation_fraction=0.002"]
        )
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - begin
        if status:
            raise SystemExit(f"mixling train ended with status {status}")
        report = {
            "rows": rows,
            "csv_bytes": table.stat().st_size,
            "peak_resident_bytes": usage.ru_maxrss * 1024,
            "seconds": round(seconds, 1),
            "time_budget": options.time_budget,
            "validation": json.loads((run / "metrics.json").read_text())["validation"]["accuracy"],
        }
    print(json.dumps(report, indent=1))
    report["provenance"] = made
    options.out.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
