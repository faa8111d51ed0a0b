"""Encoding a large table with one process and with several: time, CPU, memory, and whether the rows are equal.

    python benchmarks/encoding.py --data ../shared/data/snips

Texts are drawn from SNIPS; of the second set, one in ten has a word that no other has, as names and numbers are. The
processes take turns. CPU is that of this process and of those that it starts. On a machine that is busy with other
work, use the times of CPU: with idle cores, two processes are about 2 / (CPU of two / CPU of one) times as fast.
Written to benchmarks/results/encoding.json.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import os
import random
import resource
import statistics
import time
from pathlib import Path
from typing import Any

from mixling import TextConfig, TextEncoder, use_workers
from mixling.provenance import provenance
from mixling.storage import write_json
from mixling.text import MinHash, train_vocabulary

CHUNK = 4096  # as in training


def cpu() -> tuple[float, float]:
    """Seconds of CPU of this process, and of those that it started and that have ended."""
    return tuple(
        usage.ru_utime + usage.ru_stime
        for usage in (resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN))
    )


def encode(texts: list[str], known: list[str], number: int) -> dict[str, Any]:
    """Encode texts with a new encoder in so many processes."""
    config = TextConfig(projection=MinHash(num_features=4096), max_len=128, contractions=True)
    encoder = TextEncoder(config, train_vocabulary(known, config))
    digest = hashlib.sha256()
    before, begin = cpu(), time.perf_counter()
    with use_workers(number):
        for chunk in encoder.encode_stream(texts[first : first + CHUNK] for first in range(0, len(texts), CHUNK)):
            for item in chunk:
                digest.update(item.words)
    seconds, after = time.perf_counter() - begin, cpu()
    return {
        "seconds": round(seconds, 2),
        "cpu_of_main": round(after[0] - before[0], 2),
        "cpu_of_others": round(after[1] - before[1], 2),
        "digest": digest.hexdigest(),
    }


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder of SNIPS")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--workers", type=int, nargs="*", default=[1, 2])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "encoding.json")
    options = parser.parse_args()
    made, load = provenance(seed=options.seed, packages=("tokenizers",)), os.getloadavg()
    with gzip.open(options.data / "train.jsonl.gz", "rt", encoding="utf-8") as lines:
        known = [" ".join(json.loads(line)["tokens"]) for line in lines]
    draw = random.Random(options.seed)
    plain = draw.choices(known, k=options.rows)
    named = [f"{text} {draw.getrandbits(40):x}" if draw.random() < 0.1 else text for text in plain]
    report: dict[str, Any] = {"rows": options.rows}
    for name, texts in (("texts of SNIPS", plain), ("one in ten with a new word", named)):
        runs: dict[int, list[dict[str, Any]]] = {number: [] for number in options.workers}
        for _ in range(options.rounds):
            for number, found in runs.items():
                found.append(encode(texts, known, number))
                print(name, number, found[-1], flush=True)
        middle = {
            key: {number: statistics.median(run[key] for run in found) for number, found in runs.items()}
            for key in ("seconds", "cpu_of_main", "cpu_of_others")
        }
        report[name] = {
            "equal": len({run["digest"] for found in runs.values() for run in found}) == 1,
            "median": middle,
            "speedup": {
                number: round(middle["seconds"][1] / seconds, 2) for number, seconds in middle["seconds"].items()
            },
        }
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    report["peak_memory_mb_of_a_worker"] = round(usage.ru_maxrss / 1024, 1)
    write_json(options.out, {**made, "load_average_at_start": load, **report})
    print(json.dumps(report, indent=1))


if __name__ == "__main__":
    main()
