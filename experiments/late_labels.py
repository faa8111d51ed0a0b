"""Two intents of SNIPS arrive late: how many old examples are replayed, against learning everything from scratch.

A model is trained on five intents. Then 100 examples of each of two others arrive, and `mixling train --from` learns
them with 0 (only the weights are kept), 10, 50, 200 or all old examples of each label. Learning
without forgetting (Li and Hoiem, ECCV 2016) needs no old examples: its targets on the new texts are a mixture of the
label and of what the old model predicts. Accuracy on the validation examples of old and of new intents chooses;
`--test` reads the test examples, for the choice and for training from scratch.

    python experiments/late_labels.py ../shared/data/snips --seed 0

Results are added to results/late_labels.json, an item for each run.
"""

from __future__ import annotations

import argparse
import gzip
import json
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from mixling import Predictor
from mixling.cost.provenance import provenance
from mixling.runs import training
from mixling.runs.data import _read_split, read_data
from mixling.runs.spec import LABELS, resolve
from mixling.runs.training import fit
from mixling.tasks.classification import Classification
from mixling.text.labels import LabelSet

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


def train_distilled(late: Path, base: Path, folder: Path, seed: int) -> None:
    """Learn new labels without old examples: half of a new text's target is what the old model predicts."""
    old = Predictor(base)
    original_examples, original_labels = training._examples, Classification.label_set

    def examples(*args: Any) -> Any:
        made = original_examples(*args)
        ids = np.asarray(made.targets)
        soft = np.zeros((len(ids), len(made.task.labels)), np.float32)
        columns = [made.task.labels.id(name) for name in old.labels.names]
        soft[:, columns] = 0.5 * old.predict_proba(list(made.texts.texts))
        soft[np.arange(len(ids)), ids] += 0.5
        return replace(made, targets=soft)

    def labels(data: Any) -> LabelSet:
        return LabelSet(tuple(sorted({*old.labels.names, *data.label_counts()})), "single")

    init = {"pretrained": str(base)}
    resolved = resolve({"data": {"train": [str(late)]}, "task": "classification", "init": init}, spec=LABELS)
    config = resolved.config.model_copy(update={"train": resolved.config.train.model_copy(update={"seed": seed})})
    config = config.model_copy(update={"ngrams": config.ngrams.model_copy(update={"use": "never"})})
    parts = _read_split(config, spool_dir=None, log=print)
    try:
        training._examples, Classification.label_set = examples, staticmethod(labels)  # type: ignore[assignment]
        fit(
            resolved.for_examples(parts[0]).config.model_copy(update={"ngrams": config.ngrams, "train": config.train}),
            *parts,
            folder=folder,
        )
    finally:
        training._examples, Classification.label_set = original_examples, original_labels  # type: ignore[method-assign]


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
        if not test:
            train_distilled(late, home / "base", home / "distilled", seed)
            out["distilled"] = accuracy(home / "distilled", checked)
        for count in (CHOSEN,) if test else REPLAYED:
            train([late], None, home / f"r{count}", seed, {"pretrained": str(home / "base"), "replay": count})
            out[f"replay {count}"] = accuracy(home / f"r{count}", checked)
            print(seed, count, out[f"replay {count}"], flush=True)
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--test", action="store_true")
    options = parser.parse_args()
    found = measure(options.data, options.seed, test=options.test)
    item = {"split": "test" if options.test else "validation", "accuracy": found, **provenance(seed=options.seed)}
    items = json.loads(OUT.read_text())["items"] if OUT.exists() else []
    OUT.write_text(json.dumps({"items": [*items, item]}, indent=1) + "\n")


if __name__ == "__main__":
    main()
