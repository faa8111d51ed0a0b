"""Memory of training a classifier on long texts: the greatest resident size of `mixling train`, beside the text's.

    python benchmarks/heap.py ../shared/data/imdb/train.jsonl.gz      # 4 minutes of one core

One process trains what the command takes for the rows, for a few steps, and measures and saves it; the operating system
counts its greatest memory and its processor time. The rows are given once, and several times: the further copies have
the words of each text in random orders, so that all are distinct. What is small beside a large text is not beside the
first: PyTorch and what is imported with it alone take .4 GB. With `--against`, the sources of another version do the
same beside it. Written to benchmarks/results/heap.json.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import random
import sys
import tempfile
from pathlib import Path

from mixling.provenance import provenance
from mixling.storage import write_json


def copy_rows(rows: Path, copies: int, path: Path) -> int:
    """Write JSON lines with a text, and others with its words shuffled; return the bytes of all texts."""
    draw, size = random.Random(0), 0
    with gzip.open(rows, "rt", encoding="utf-8") as file:
        read = [json.loads(line) for line in file]
    with open(path, "w", encoding="utf-8") as file:
        for copy in range(copies):
            for row in read:
                words = row["text"].split(" ")
                if copy:
                    draw.shuffle(words)
                text = " ".join(words)
                size += len(text.encode())
                file.write(json.dumps({**row, "text": text}) + "\n")
    return size


def train(rows: Path, steps: int, sources: Path | None, folder: Path) -> dict[str, float]:
    """Train once; return the greatest memory, seconds of the processor, and accuracy and loss on validation."""
    command = [sys.executable, "-m", "mixling", "train", str(rows), "-o", str(folder), "--set", f"train.steps={steps}"]
    command += ["--set", "data.validation_fraction=0.1"]  # which holds nothing out to test on, in older sources too
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    if sources is not None:
        environment["PYTHONPATH"] = str(sources)
    _, status, usage = os.wait4(os.spawnve(os.P_NOWAIT, sys.executable, command, environment), 0)
    if status:
        sys.exit(f"{' '.join(command)}: ended with {status}")
    validation = json.loads((folder / "metrics.json").read_text())["validation"]
    return {
        "peak_bytes": usage.ru_maxrss * 1024,
        "user_seconds": round(usage.ru_utime, 1),
        "system_seconds": round(usage.ru_stime, 1),
        "accuracy": round(validation["accuracy"], 4),
        "log_loss": round(validation["log_loss"], 4),
    }


def main() -> None:
    """Train, print and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", type=Path)
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--copies", type=int, nargs="+", default=[1, 8])
    parser.add_argument("--against", type=Path, metavar="DIR", help="the src folder of another version")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "heap.json")
    options = parser.parse_args()
    made = provenance(seed=0)
    runs = []
    for copies in options.copies:
        with tempfile.TemporaryDirectory() as temporary:
            rows = Path(temporary) / "rows.jsonl"
            size = copy_rows(options.rows, copies, rows)
            for name in ("now", "before") if options.against else ("now",):
                found = train(
                    rows, options.steps, options.against if name == "before" else None, Path(temporary) / name
                )
                runs.append({"version": name, "copies": copies, "text_bytes": size, **found})
                times = found["peak_bytes"] / size
                print(f"{name}: {size / 1e6:.0f} MB of text, {times:.1f} times that at most; {found}", flush=True)
    made["command"] = made["command"].replace(str(options.against), "DIR")
    write_json(options.out, {**made, "rows": options.rows.name, "steps": options.steps, "runs": runs})


if __name__ == "__main__":
    main()
