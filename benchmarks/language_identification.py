"""The demo's language identifier on the questions of XQuAD in 12 languages, which it never saw.

    python benchmarks/language_identification.py --data ../shared/data/xquad --seeds 0 1 2

Each seed is one run of `mixling demo` in a process of its own, whose CPU seconds, of user and system, are those of the
whole command: imports, reading, training, export and test. The file `XX.jsonl.gz` of the data has the same questions in
the language XX. Every fifth question (1, 6, 11, ...) was looked at while the data and the settings of the demo were
chosen (`--part development`); `benchmarks/results/language_identification.json` is of the others, measured once.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from mixling import Predictor
from mixling.cost import provenance
from mixling.data import LANGUAGES

PACKAGES = ("Babel", "Django", "Sphinx", "django-allauth", "djangorestframework")


def questions(folder: Path, *, development: bool) -> dict[str, list[str]]:
    """Return the questions of one part by language."""
    found = {}
    for path in sorted(folder.glob("*.jsonl.gz")):
        with gzip.open(path, "rt", encoding="utf-8") as file:
            lines = [json.loads(line)["question"] for line in file]
        found[path.name.partition(".")[0]] = [
            text for number, text in enumerate(lines) if (number % 5 == 0) == development
        ]
    return found


def evaluate(seed: int, texts: dict[str, list[str]]) -> dict[str, Any]:
    """Run the demo and return its cost, its own test line and the accuracy on each language's questions."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "model"
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        command = [sys.executable, "-m", "mixling", "demo", "-o", str(out), "--seed", str(seed)]
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        done = subprocess.run(
            command, check=True, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True
        )
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        predictor = Predictor(out)
        right = {
            code: [answer.label == LANGUAGES[code] for answer in predictor.predict_stream(asked)]
            for code, asked in texts.items()
        }
        file_bytes = (out / "model.onnx").stat().st_size
    return {
        "seed": seed,
        "accuracy": mean(value for found in right.values() for value in found),
        "lowest": min(mean(found) for found in right.values()),
        "by_language": {code: round(mean(found), 4) for code, found in right.items()},
        "cpu_seconds": round(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, 1),
        "file_bytes": file_bytes,
        "held_out_messages": done.stdout.partition("\n")[0],
        "printed": done.stdout.splitlines()[-10:],
    }


def main() -> None:
    """Measure the seeds that are named and write the result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="the folder of XQuAD's questions, XX.jsonl.gz")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--part", choices=["development", "test"], default="test")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/language_identification.json"))
    arguments = parser.parse_args()
    origin = provenance(packages=PACKAGES)
    texts = questions(arguments.data, development=arguments.part == "development")
    runs = []
    for seed in arguments.seeds:
        runs.append(evaluate(seed, texts))
        print(json.dumps(runs[-1], ensure_ascii=False), flush=True)
    accuracies = [run["accuracy"] for run in runs]
    result = {
        "questions": sum(map(len, texts.values())),
        "part": arguments.part,
        "accuracy": {"mean": mean(accuracies), "deviation": stdev(accuracies) if len(runs) > 1 else None},
        "by_language": {code: round(mean(run["by_language"][code] for run in runs), 4) for code in texts},
        "runs": runs,
        "provenance": origin,
    }
    arguments.out.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n", "utf-8")


if __name__ == "__main__":
    main()
