"""What the packaged model answers to 30 messages of its topics and 10 of none, by somebody who had not seen the data.

    python benchmarks/outsiders.py

The messages, benchmarks/outsiders.csv, were written from the names of the topics alone. Nothing is chosen by them.
Written to benchmarks/results/outsiders.json.
"""

from __future__ import annotations

import argparse
import csv
from pathlib import Path
from typing import Any

from mixling import Predictor
from mixling.provenance import provenance
from mixling.samples.sets import demo_model
from mixling.storage import write_json

MESSAGES = Path(__file__).with_name("outsiders.csv")


def measure(model: Path) -> tuple[dict[str, int], list[str]]:
    """Count what a model answers, and return a line for each answer."""
    with MESSAGES.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    answers = list(Predictor(model).predict_stream([row["message"] for row in rows]))
    found = {"right": 0, "wrong": 0, "abstained": 0, "no_topic_abstained": 0, "no_topic_answered": 0}
    lines = []
    for row, answer in zip(rows, answers, strict=True):
        kind = "abstained" if answer.abstained else "right" if answer.label == row["topic"] else "wrong"
        found[kind if row["topic"] else f"no_topic_{'abstained' if answer.abstained else 'answered'}"] += 1
        sure = answer.probabilities[answer.label]
        lines.append(f"{kind:<9} {row['topic'] or '-':<13} {answer.label:<13} {sure:.2f}  {row['message']}")
    return found, lines


def main() -> None:
    """Write the counts and print the answers."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "outsiders.json")
    parser.add_argument("--model", type=Path, default=demo_model())
    options = parser.parse_args()
    origin: dict[str, Any] = provenance()
    found, lines = measure(options.model)
    print("\n".join(lines), found, sep="\n")
    write_json(options.out, {**origin, "found": found})


if __name__ == "__main__":
    main()
