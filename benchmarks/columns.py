"""Columns beside the text: our accuracy beside regression and trees over text and columns, and what columns cost.

    python benchmarks/columns.py --data ../shared/data sick mtop imdb
    python benchmarks/columns.py --data ../shared/data cost
    python benchmarks/columns.py --data ../shared/data mrpc hyperpartisan messages
    python benchmarks/columns.py --data ../shared/data sick-network mtop-network imdb-network

The sets: SICK, two sentences and the number `relatedness` -> entailment; MTOP in six languages, the language as a
category -> intent, trained on the development rows, as the set has no others; IMDB, of which 2,000 random training rows
and 5,000 random test rows are read, with the number `score` that we make: it is drawn from a normal distribution of
deviation 1 and mean .6745 for positive reviews, -.6745 for negative ones, so that its sign alone is right for 75% of
the rows, half of the way from chance to all; it is empty in a tenth of the rows.

Each set is one `mixling compare --features` with its defaults and three seeds: all choices are made on validation rows,
the test rows are read once, after them. `cost`: one model of SICK's first sentences alone, one with three columns
(the number, and a category and a date drawn at random) beside them, of the same options, asked one text at a time, in
turn, on one core; the latter with rows whose columns are all missing, too: what is left then is reading the row.
The next three: several columns of text (`--text` for each) beside the same texts joined by spaces, three seeds,
defaults otherwise, by the accuracy on test rows that are read once: MRPC's two sentences (tested on its development
rows); Hyperpartisan's titles, the first lines of its articles, and bodies (every fourth row tests); three random
messages of our sample as title, body and note, where the label is the body's topic: 3,000 rows of its training
messages, 1,000 of its test messages. The last one is made so that the place of a text counts.

The last three: whether the network gains from reading columns, which the linear branch alone reads: the first three
sets as they are, and with a word for each column in front of the first text (a category's value, or the tenth in which
a number is), which the mixers mix with the others; of both the accuracy on validation rows: those of SICK, a random
fifth of the others' training rows. No test row is read. Written to benchmarks/results/columns.json; other entries stay.
"""

from __future__ import annotations

import argparse
import bisect
import csv
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
from importlib.resources import files
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
        paths = {split: write(Path(folder) / f"{split}.jsonl", part) for split, part in rows.items()}
        command = [sys.executable, "-m", "mixling", "compare", paths["train"], "--test", paths["test"], *options]
        command += ["--validation", paths["dev"]] if "dev" in paths else []
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


def cost(_name: str, data: Path, rounds: int = 15) -> dict[str, Any]:
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
    models["missing"] = models["columns"]
    for row in rows:
        del row["label"]
    asked: dict[str, list[Any]] = {"text": [row["text"] for row in rows], "columns": rows}
    asked["missing"] = [dict.fromkeys(row) | {"text": row["text"]} for row in rows]
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
    ratios = {name: medians[name] / medians["text"] for name in ("columns", "missing")}
    return {"rows": len(rows), "p50_us": medians, "ratios": ratios}


def several(name: str, data: Path) -> tuple[Rows, Rows, list[str]]:
    """The training and test rows of a set of several texts, and the names of these."""
    if name == "mrpc":
        train, test = (read(data / f"mrpc/{split}.jsonl.gz") for split in ("train", "dev"))
        return train, test, ["text", "text_pair"]
    if name == "hyperpartisan":
        rows = []
        for row in read(data / "hyperpartisan_byarticle/all.jsonl.gz"):
            title, _, body = row["text"].partition("\n")
            rows.append({"title": title, "body": body, "label": row["label"]})
        random.Random(0).shuffle(rows)
        return [row for i, row in enumerate(rows) if i % 4], rows[::4], ["title", "body"]
    chance = random.Random(0)
    names = ["title", "body", "note"]
    made = []
    for file, number in (("messages.csv", 3_000), ("messages_test.csv", 1_000)):
        with (files("mixling.samples") / file).open(encoding="utf-8", newline="") as lines:
            known = list(csv.DictReader(lines))
        drawn = [chance.sample(known, 3) for _ in range(number)]
        texts = ([one["message"] for one in three] for three in drawn)
        made.append([dict(zip(names, three, strict=True)) for three in texts])
        for row, three in zip(made[-1], drawn, strict=True):
            row["label"] = three[1]["topic"]
    return made[0], made[1], names


def texts(name: str, data: Path) -> dict[str, Any]:
    """The accuracy of columns of text, and of the same texts joined by spaces, by seed."""
    train, test, names = several(name, data)
    for row in (*train, *test):
        row["joined"] = " ".join(row[one] for one in names)
    found: dict[str, Any] = {"train": len(train), "test": len(test)}
    for way, columns in (("joined", ["joined"]), ("columns", names)):
        found[way] = [_accuracy(train, test, columns, seed) for seed in SEEDS.split(",")]
    return found


def _accuracy(train: Rows, test: Rows, columns: list[str], seed: str) -> float:
    with tempfile.TemporaryDirectory() as folder:
        path = write(Path(folder) / "train.jsonl", train)
        named = [word for column in columns for word in ("--text", column)]
        out = fitted(Path(folder) / "out", path, *named, "--test-fraction", "0", "--seed", seed)
        asked = [tuple(row[name] for name in columns) if len(columns) > 1 else row[columns[0]] for row in test]
        found = Predictor(out, num_threads=1).predict(asked)
        return sum(one.label == str(row["label"]) for one, row in zip(found, test, strict=True)) / len(test)


def fitted(out: Path, path: str, *options: str) -> Path:
    command = [sys.executable, "-m", "mixling", "train", path, "--label", "label", *options, "-o", str(out)]
    subprocess.run(command, check=True, capture_output=True)
    return out


def network(name: str, data: Path) -> dict[str, Any]:
    """The accuracy on validation rows without and with a word for each column in front of the text, by seed."""
    rows, options = splits(name.removesuffix("-network"), data)
    train, validation = rows["train"], rows.get("dev", [])
    if not validation:
        random.Random(0).shuffle(train)
        train, validation = train[len(train) // 5 :], train[: len(train) // 5]
    column, kind = options[-1].split(":")
    known = [row[column] for row in train if row[column] is not None]
    tenths = statistics.quantiles(known, n=10) if kind == "number" else []
    found: dict[str, Any] = {"train": len(train), "validation": len(validation)}
    for way in ("without", "with"):
        with tempfile.TemporaryDirectory() as folder:
            paths = [write(Path(folder) / f"{i}.jsonl", part) for i, part in enumerate((train, validation))]
            found[way] = []
            for seed in SEEDS.split(","):
                out = fitted(Path(folder) / seed, paths[0], "--validation", paths[1], *options, "--seed", seed)
                metrics = json.loads((out / "metrics.json").read_text("utf-8"))
                found[way].append({key: metrics["validation"][key] for key in ("accuracy", "log_loss")})
        for row in (*train, *validation):
            value = row[column]
            if tenths and value is not None:
                value = 4 * chr(ord("a") + bisect.bisect(tenths, value))
            row["text"] = f"{value or 'none'}{column} {row['text']}"
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    kinds = {"sick": compare, "mtop": compare, "imdb": compare, "cost": cost}
    kinds |= dict.fromkeys(("mrpc", "hyperpartisan", "messages"), texts)
    kinds |= dict.fromkeys(("sick-network", "mtop-network", "imdb-network"), network)
    parser.add_argument("names", nargs="+", choices=kinds)
    parser.add_argument("--data", type=Path, required=True)
    arguments = parser.parse_args()
    for name in arguments.names:
        origin = provenance(seed=0, packages=("numpy", "scikit-learn"))
        found = kinds[name](name, arguments.data)
        known = json.loads(OUT.read_text("utf-8")) if OUT.exists() else {}
        write_json(OUT, known | {name: {"provenance": origin, **found}})


if __name__ == "__main__":
    main()
