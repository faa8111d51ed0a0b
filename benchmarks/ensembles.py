"""The models of a teacher trained side by side, beside one after another: `mixling distill --teacher self` on SNIPS.

    python benchmarks/ensembles.py --data ../shared/data    # 10 minutes of two cores that do nothing else

Each round runs the command once with one worker and once with as many as there are cores, in an order that is drawn
anew. `models_s` are the seconds from the first line about a model of the teacher to the line about their mean, and
`wall_s` those of the whole command. The student's file must have the same bytes each time.

Written to benchmarks/results/ensembles.json.
"""

from __future__ import annotations

import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from side_by_side import arguments, ratio

from mixling.provenance import provenance
from mixling.storage import sha256_of, write_json

FIRST, LAST = "teacher, model 1 of ", "teacher: validation "


def distill(data: Path, workers: int, folder: Path) -> tuple[dict[str, float], str]:
    """Seconds of a command and of its ensemble, and the hash of the student's file."""
    words = ["distill", data / "train.jsonl.gz", "--validation", data / "dev.jsonl.gz", "--text", "tokens"]
    words += ["--label", "intent", "--teacher", "self", "--workers", workers, "-o", folder / "run"]
    begin = time.monotonic()
    process = subprocess.Popen(
        [sys.executable, "-m", "mixling", *map(str, words)],
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
    )
    assert process.stderr is not None
    at = {}
    for line in process.stderr:
        for start in (FIRST, LAST):
            if line.startswith(start):
                at.setdefault(start, time.monotonic())
    assert process.wait() == 0, "the command failed"
    spent = {"wall_s": round(time.monotonic() - begin, 2), "models_s": round(at[LAST] - at[FIRST], 2)}
    return spent, sha256_of(folder / "run" / "model.onnx")


def main() -> None:
    """Measure and write."""
    assert __doc__ is not None
    parser = arguments(__doc__, "ensembles")
    parser.add_argument("--data", type=Path, required=True, help="folder with the folder snips")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    random.seed(0)
    cores = len(os.sched_getaffinity(0))
    found: dict[int, list[dict[str, float]]] = {1: [], cores: []}
    hashes = set()
    for _ in range(options.rounds):
        for workers in random.sample(sorted(found), len(found)):
            with tempfile.TemporaryDirectory() as folder:
                spent, content = distill(options.data / "snips", workers, Path(folder))
            print(workers, spent, flush=True)
            found[workers].append(spent)
            hashes.add(content)
    assert len(hashes) == 1, "the student depends on the number of workers"
    result: dict[str, Any] = {"cores": cores}
    for key in ("models_s", "wall_s"):
        columns = {workers: [one[key] for one in rounds] for workers, rounds in found.items()}
        result[key] = {str(workers): statistics.median(column) for workers, column in columns.items()}
        result[key]["times_as_fast"] = ratio(columns[1], columns[cores])
    write_json(options.out, {**result, "provenance": provenance(seed=0)})
    print(result)


if __name__ == "__main__":
    main()
