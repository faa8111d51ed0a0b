"""Columns beside the text: our accuracy beside regression and trees over text and columns, and what columns cost.

    python benchmarks/columns.py --data ../shared/data sick mtop imdb
    python benchmarks/columns.py --data ../shared/data cost

The sets: SICK, two sentences and the number `relatedness` -> entailment; MTOP in six languages, the language as a
category -> intent, trained on the development rows, as the set has no others; IMDB, of which 2,000 random training rows
and 5,000 random test rows are read, with the number `score` that we make: it is drawn from a normal distribution of
deviation 1 and mean .6745 for positive reviews, -.6745 for negative ones, so that its sign alone is right for 75% of
the rows, half of the way from chance to all; it is empty in a tenth of the rows.

Each set is one `mixling compare --features` with its defaults and three seeds: all choices are made on validation rows,
the test rows are read once, after them. `cost`: one model of SICK's first sentences alone, one with three columns
(the number, and a category and a date drawn at random) beside them, of the same options, asked one text at a time, in
turn, on one core. Written to benchmarks/results/columns.json; other entries stay.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from datetime import date, timedelta
from pathlib import Path
from typing import Any

from mixling import Predictor
from mixling.provenance import provenance
from mixling.storage import write_json

OUT = Path(__file__).parent / "results" / "columns.json"
SEEDS = "0,1,2"
SYSTEMS = "tf-idf+columns,trees+columns,tf-idf"
MEAN = 0.6744897501960817  # of `score`: the normal distribution has three quarters below
KEPT = ("name", "chosen", "file_bytes", "train_seconds", "validation")
Rows = list[dict[str, Any]]


def read(path: Path) -> Rows:
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def mtop(rows: Rows) -> Rows:
    return [{"text": " ".join(row["tokens"]), "label": row["intent"], "lang": row["lang"]} for row in rows]


def imdb(rows: Rows, number: int, chance: random.Random) -> Rows:
    """Random rows with the number that carries half of the signal."""
    out = []
    for row in chance.sample(rows, number):
        score = chance.gauss(MEAN if row["label"] in ("positive", "pos", "1", 1) else -MEAN, 1)
        out.append({"text": row["text"], "label": row["label"], "score": None if chance.random() < 0.1 else score})
    return out


def splits(name: str, data: Path) -> tuple[dict[str, Rows], list[str]]:
    """The rows of a set by split, and the options that name its columns."""
    if name == "sick":
        rows = {split: read(data / f"sick/{split}.jsonl.gz") for split in ("train", "dev", "test")}
        return rows, ["--text-pair", "text_pair", "--features", "relatedness:number"]
    if name == "mtop":
        source = data / "mtop_xsemplr6"
        rows = {"train": mtop(read(source / "dev.jsonl.gz")), "test": mtop(read(source / "test.jsonl.gz"))}
        return rows, ["--features", "lang:category"]
    chance = random.Random(0)
    numbers = {"train": 2_000, "test": 5_000}
    rows = {split: imdb(read(data / f"imdb/{split}.jsonl.gz"), number, chance) for split, number in numbers.items()}
    return rows, ["--features", "score:number"]


def write(path: Path, rows: Rows) -> str:
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), "utf-8")
    return str(path)


def compare(name: str, data: Path) -> dict[str, Any]:
    """What `mixling compare` finds on a set."""
    rows, options = splits(name, data)
    with tempfile.TemporaryDirectory() as folder:
        files = {split: write(Path(folder) / f"{split}.jsonl", part) for split, part in rows.items()}
        command = [sys.executable, "-m", "mixling", "compare", files["train"], "--test", files["test"], *options]
        command += ["--validation", files["dev"]] if "dev" in files else []
        command += ["--seeds", SEEDS, "--systems", SYSTEMS, "-o", str(Path(folder) / "out.json")]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        found = json.loads((Path(folder) / "out.json").read_text("utf-8"))
    systems = [
        {key: one[key] for key in KEPT} | {key: one["test"][key] for key in ("mean", "interval", "difference")}
        | {"difference_interval": one["test"]["difference_interval"]}
        | {"by_seed": [numbers[found["metric"]] for numbers in one["test"]["by_seed"]]}
        for one in found["results"]
    ]  # fmt: skip
    return {"rows": found["rows"], "metric": found["metric"], "conclusion": found["conclusion"], "systems": systems}


def cost(data: Path, rounds: int = 15) -> dict[str, Any]:
    """The time of an answer without columns and with three, in turn on the same texts."""
    chance = random.Random(0)
    rows = [
        {"text": row["text"], "label": row["label"], "relatedness": row["relatedness"],
         "channel": chance.choice(["mail", "chat", "shop", "phone"]),
         "day": str(date(2024, 1, 1) + timedelta(chance.randrange(700)))}
        for row in read(data / "sick/train.jsonl.gz")
    ]  # fmt: skip
    models: dict[str, Predictor] = {}
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    with tempfile.TemporaryDirectory() as folder:
        file = write(Path(folder) / "train.jsonl", rows)
        for name, options in (("text", []), ("columns", ["--features", "relatedness,channel,day"])):
            out = str(Path(folder) / name)
            command = [sys.executable, "-m", "mixling", "train", file, "--text", "text", "-o", out]
            command += ["--set", "data.validation_fraction=0.1", *options]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            models[name] = Predictor(out, num_threads=1)
    asked: dict[str, list[Any]] = {"text": [row["text"] for row in rows], "columns": rows}
    for row in rows:
        del row["label"]
    for name, model in models.items():
        model.predict(asked[name])  # words are remembered
    p50: dict[str, list[float]] = {name: [] for name in models}
    for _ in range(rounds):
        for name, model in models.items():
            spent = []
            for one in asked[name]:
                begin = time.perf_counter()
                model.predict_one(one)
                spent.append(1e6 * (time.perf_counter() - begin))
            p50[name].append(statistics.median(spent))
    medians = {name: statistics.median(values) for name, values in p50.items()}
    return {"rows": len(rows), "p50_us": medians, "ratio": medians["columns"] / medians["text"]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="+", choices=("sick", "mtop", "imdb", "cost"))
    parser.add_argument("--data", type=Path, required=True)
    arguments = parser.parse_args()
    for name in arguments.names:
        origin = provenance(seed=0, packages=("numpy", "scikit-learn"))
        found = cost(arguments.data) if name == "cost" else compare(name, arguments.data)
        known = json.loads(OUT.read_text("utf-8")) if OUT.exists() else {}
        write_json(OUT, known | {name: {"provenance": origin, **found}})


if __name__ == "__main__":
    main()
