"""Two intents of SNIPS arrive late: how many old examples are replayed, against learning everything from scratch.

A model is trained on five intents. Then 100 examples of each of two others arrive, and `mixling train --from` learns
them with 0 (only the weights are kept), 10, 50, 200 or all old examples of each label. Accuracy on the validation
examples of old and of new intents chooses; `--test` reads the test examples, for the choice and for training from
scratch.

    python experiments/late_labels.py ../shared/data/snips
    python experiments/late_labels.py ../shared/data/snips --test

Written to results/late_labels.json, an item for each split.
"""

from __future__ import annotations

import argparse
import gzip
import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from mixling import Predictor, fit, read_data
from mixling.provenance import provenance
from mixling.runs.resolve import LABELS, resolve
from mixling.storage import write_json

OUT = Path(__file__).parent / "results" / "late_labels.json"
LATE = ("PlayMusic", "SearchScreeningEvent")
OLD_ROWS, NEW_ROWS = 400, 100  # of each intent
CHOSEN = 50
REPLAYED = (0, 10, 50, 200, 400)


def rows(path: Path) -> list[dict[str, str]]:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return [{"text": " ".join(row["tokens"]), "label": row["intent"]} for row in map(json.loads, file)]


def write(path: Path, found: list[dict[str, str]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in found))
    return path


def take(found: list[dict[str, str]], names: set[str], count: int, seed: int) -> list[dict[str, str]]:
    order = np.random.default_rng(seed).permutation(len(found))
    left = dict.fromkeys(names, count)
    out = []
    for index in order.tolist():
        row = found[index]
        if left.get(row["label"], 0):
            left[row["label"]] -= 1
            out.append(row)
    return out


def train(files: list[Path], validation: Path | None, folder: Path, seed: int, init: dict[str, Any]) -> None:
    data = {"train": [str(file) for file in files], "validation": [] if validation is None else [str(validation)]}
    resolved = resolve({"data": data, "task": "classification", "init": init, "train": {"seed": seed}}, spec=LABELS)
    parts = read_data(resolved.config, spool_dir=None, log=print)
    fit(resolved.for_examples(parts[0]).config, *parts, folder=folder)


def accuracy(folder: Path, found: list[dict[str, str]]) -> dict[str, float]:
    right = [
        row["label"] == p.label
        for row, p in zip(found, Predictor(folder).predict([r["text"] for r in found]), strict=True)
    ]
    late = np.array([row["label"] in LATE for row in found])
    hits = np.array(right)
    return {"old": float(hits[~late].mean()), "new": float(hits[late].mean()), "all": float(hits.mean())}


def measure(data: Path, seed: int, *, test: bool) -> dict[str, Any]:
    train_rows, checked = rows(data / "train.jsonl.gz"), rows(data / ("test.jsonl.gz" if test else "dev.jsonl.gz"))
    names = {row["label"] for row in train_rows}
    old = take(train_rows, names - set(LATE), OLD_ROWS, seed)
    new = take(train_rows, set(LATE), NEW_ROWS, seed)
    out = {}
    with tempfile.TemporaryDirectory() as name:
        home = Path(name)
        first, late = write(home / "old.jsonl", old), write(home / "new.jsonl", new)
        train([first], None, home / "base", seed, {})
        train([first, late], None, home / "scratch", seed, {})
        out["from scratch"] = accuracy(home / "scratch", checked)
        for count in (CHOSEN,) if test else REPLAYED:
            train([late], None, home / f"r{count}", seed, {"pretrained": str(home / "base"), "replay": count})
            out[f"replay {count}"] = accuracy(home / f"r{count}", checked)
            print(seed, count, out[f"replay {count}"], flush=True)
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--test", action="store_true")
    parser.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args()
    origin = provenance(seed=None)
    split = "test" if options.test else "validation"
    found = {str(seed): measure(options.data, seed, test=options.test) for seed in options.seeds}
    items = json.loads(options.out.read_text("utf-8"))["items"] if options.out.exists() else []
    others = [item for item in items if item["split"] != split]
    write_json(options.out, {"items": [*others, {"split": split, "accuracy": found, **origin}]})


if __name__ == "__main__":
    main()
