"""Memory of a process that trains many models, one after the other: does it grow?

    python benchmarks/leak.py

Each run is a small classifier as an estimator makes it: trained, exported, measured, and thrown away. After each the
process' resident memory and the number of Python objects are taken. The growth is the slope of a straight line through
those of all runs but the first ones, in which libraries are loaded. Written to benchmarks/results/leak.json.
"""

from __future__ import annotations

import argparse
import gc
import os
from pathlib import Path

import numpy as np
import torch

from mixling import TextClassifier
from mixling.provenance import provenance
from mixling.storage import write_json

LIMIT = 0.5  # MB a run
_WARM = 10  # runs


def rows(number: int) -> tuple[list[str], list[str]]:
    """Texts and labels, others in each run."""
    chance = np.random.default_rng(number)
    words = ["good", "bad", *(f"word{i}" for i in range(40))]
    texts = [" ".join(chance.choice(words, 8)) for _ in range(120)]
    return texts, ["yes" if "good" in text.split() else "no" for text in texts]


def resident() -> float:
    """The process' memory in MB."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def slope(values: list[float]) -> float:
    """Growth a run."""
    return float(np.polyfit(np.arange(len(values)), values, 1)[0])


def main() -> None:
    """Train, print and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "leak.json")
    options = parser.parse_args()
    torch.set_num_threads(1)
    made = provenance(seed=0)
    memory, objects = [], []
    for number in range(options.runs):
        texts, labels = rows(number)
        TextClassifier(model="mixling-tiny", epochs=2, seed=number).fit(texts, labels)
        gc.collect()
        memory.append(round(resident(), 1))
        objects.append(len(gc.get_objects()))
        print(f"run {number + 1}: {memory[-1]:.1f} MB, {objects[-1]:,} objects", flush=True)
    found = {"megabytes_a_run": slope(memory[_WARM:]), "objects_a_run": slope(objects[_WARM:])}
    print(f"growth: {found['megabytes_a_run']:.3f} MB and {found['objects_a_run']:.0f} objects a run; limit {LIMIT} MB")
    write_json(options.out, {**made, "limit": LIMIT, "growth": found, "megabytes": memory, "objects": objects})


if __name__ == "__main__":
    main()
