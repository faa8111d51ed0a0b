"""Early stopping replayed on finished trainings: how many evaluations are saved, and is the chosen one still reached?

No paper. Reads the metrics.jsonl of run folders whose trainings had no patience, and for each number of evaluations
counts where `train.patience` would have ended the training, and whether the evaluation that was chosen comes later.
`either` is what mixling does: progress is a better evaluation or a lower loss; `better` is a better evaluation only.

    python experiments/own_models.py --data ../shared/data --set train.patience=1000 --runs runs/own
    python experiments/patience.py runs/own

Results go to results/patience.json.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from mixling.provenance import provenance
from mixling.storage import write_json

PATIENCES = (3, 4, 5, 6)


def ends(history: list[dict[str, Any]], patience: int, *, either: bool) -> int:
    """Return how many evaluations a training has until it ends."""
    lowest, waited = float("inf"), 0
    for number, record in enumerate(history, 1):
        progress = record["best"] or (either and record["val_loss"] < lowest)
        lowest, waited = min(lowest, record["val_loss"]), 0 if progress else waited + 1
        if waited == patience:
            return number
    return len(history)


def main() -> None:
    """Replay all trainings and write the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", type=Path)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "patience.json")
    options = parser.parse_args()
    histories = {
        file.parent.relative_to(folder).as_posix(): [json.loads(line) for line in file.read_text().splitlines()]
        for folder in options.runs
        for file in sorted(folder.rglob("metrics.jsonl"))
    }
    chosen = {
        name: max(number for number, record in enumerate(history, 1) if record["best"])
        for name, history in histories.items()
    }
    rules = []
    for either in (True, False):
        for patience in PATIENCES:
            ended = {name: ends(history, patience, either=either) for name, history in histories.items()}
            saved = 1 - sum(ended[name] / len(history) for name, history in histories.items()) / len(histories)
            late = [name for name in histories if ended[name] < chosen[name]]
            rules.append({"either": either, "patience": patience, "saved": round(saved, 4), "too_early": late})
            print(f"{'either' if either else 'better'}, {patience}: {100 * saved:.0f}% saved, {len(late)} too early")
    trainings = {name: {"evaluations": len(history), "chosen": chosen[name]} for name, history in histories.items()}
    write_json(options.out, {"provenance": provenance(), "rules": rules, "trainings": trainings})


if __name__ == "__main__":
    main()
