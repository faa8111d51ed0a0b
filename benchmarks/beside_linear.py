"""The default model beside TF-IDF with logistic regression: pairs, single words, few rows, languages.

    python benchmarks/beside_linear.py --data ../shared/data snips:300 sst2_glue:500 words:3000
    python benchmarks/beside_linear.py --data ../shared/data mrpc:1000 --set model.text.segments=false

Each sample is a random part of a set's rows. Models are judged on up to 1,500 other rows of the same file, for choices,
or with `--test` on the set's test rows. A number of rows that ends in `each` is of every label. The baseline has words
(1-2) and characters (2-5 within words), of pairs those of each text and those of both, and a strength from .1 to 100 by
cross-validation of the training rows.

The sets `words-L-M` are words of two languages of XQuAD, `languages` are its sentences, `letters` and `codes` are made
up: words whose first letter decides, and codes of three groups whose middle decides. `mtop-L` are MTOP's intents.

Written to benchmarks/results/beside_linear.json, one item for each set, sample and choice of options; others are kept.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import time
import warnings
from collections import Counter, defaultdict
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np
from side_by_side import arguments

from mixling import Predictor
from mixling.provenance import provenance
from mixling.storage import write_json

Rows = list[dict[str, str]]
STRENGTHS = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
KEY = ("set", "rows", "sample", "test", "options")
MOST = 1500  # rows that models are judged on
TRAIN = {"conjnli": "train_adversarial", "qnli": "dev", "imdb": "train"}
TEST = {"sst2_glue": "dev", "mrpc": "dev", "rte": "dev", "cola": "dev", "conjnli": "dev"}


def read(path: Path) -> list[dict[str, Any]]:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def sentences(data: Path, language: str) -> list[str]:
    contexts = dict.fromkeys(row["context"] for row in read(data / "xquad" / f"{language}.jsonl.gz"))
    return [part.strip() for text in contexts for part in re.split(r"(?<=[.!?।。])\s*", text) if len(part) > 10]


def rows_of(data: Path, name: str, draw: random.Random) -> tuple[Rows, Rows]:
    """Rows to train on and test rows; the latter are a fixed part where the set has none."""
    if name in ("letters", "codes") or name.startswith("words-") or name == "languages":
        rows = made_up(name, draw) if name in ("letters", "codes") else of_xquad(data, name)
        random.Random(name).shuffle(rows)
        return rows[: len(rows) * 7 // 10], rows[len(rows) * 7 // 10 :]
    if name.startswith("mtop-"):
        parts = [read(data / "mtop_xsemplr6" / f"{part}.jsonl.gz") for part in ("dev", "test")]
        both = [[row_of(row) for row in part if row["lang"] == name[5:]] for part in parts]
        return both[0], both[1]
    folder = data / name
    train = [row_of(row) for row in read(folder / f"{TRAIN.get(name, 'train')}.jsonl.gz")]
    return train, [row_of(row) for row in read(folder / f"{TEST.get(name, 'test')}.jsonl.gz")]


def row_of(row: dict[str, Any]) -> dict[str, str]:
    if "tokens" in row:
        return {"text": " ".join(row["tokens"]), "label": row["intent"]}
    return {key: str(row[key]) for key in ("text", "text_pair", "label") if key in row}


def of_xquad(data: Path, name: str) -> Rows:
    if name == "languages":
        folder = sorted((data / "xquad").glob("*.jsonl.gz"))
        return [{"text": text, "label": file.name[:2]} for file in folder for text in sentences(data, file.name[:2])]
    known: dict[str, set[str]] = {}
    for language in name.split("-")[1:]:
        words = (word.lower() for text in sentences(data, language) for word in re.findall(r"[^\W\d_]{3,}", text))
        known[language] = set(words)
    shared = set.intersection(*known.values())
    return [{"text": word, "label": language} for language in known for word in sorted(known[language] - shared)]


def made_up(name: str, draw: random.Random) -> Rows:
    letters = "abcdefghijklmnopqrstuvwxyz"
    if name == "letters":
        words = {"".join(draw.choices(letters, k=draw.randint(4, 9))) for _ in range(6000)}
        return [{"text": word, "label": "vowel" if word[0] in "aeiouhst" else "other"} for word in sorted(words)]
    rows = []
    for _ in range(6000):
        middle = draw.choice(["QX", "RB", "TK", "VV", "AZ", "NM"])
        code = f"{draw.randint(100, 999)}{draw.choice('-/')}{middle}{draw.randint(0, 9)}-{draw.randint(1000, 9999)}"
        rows.append({"text": code, "label": {"QX": "a", "RB": "a", "TK": "b", "VV": "b"}.get(middle, "c")})
    return rows


def sample(rows: Rows, size: str, draw: random.Random) -> tuple[Rows, Rows]:
    rows = draw.sample(rows, len(rows))
    if not size.endswith("each"):
        return rows[: int(size)], rows[int(size) :]
    chosen: Rows = []
    others: Rows = []
    known: Counter[str] = Counter()
    for row in rows:
        known[row["label"]] += 1
        (chosen if known[row["label"]] <= int(size[:-4]) else others).append(row)
    return chosen, others


def baseline(train: Rows, judged: Rows) -> float:
    """The accuracy of TF-IDF with logistic regression."""
    from scipy.sparse import hstack
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import KFold, StratifiedKFold, cross_val_score

    warnings.simplefilter("ignore")
    pairs = "text_pair" in train[0]

    def texts(rows: Rows) -> list[list[str]]:
        if not pairs:
            return [[row["text"] for row in rows]]
        both = ([row[key] for row in rows] for key in ("text", "text_pair"))
        first, second = both
        shared = (
            " ".join(sorted(set(a.lower().split()) & set(b.lower().split())))
            for a, b in zip(first, second, strict=True)
        )
        return [first, second, list(shared)]

    kinds: list[dict[str, Any]] = [
        {"ngram_range": (1, 2), "token_pattern": r"\w+|[^\w\s]"},
        {"analyzer": "char_wb", "ngram_range": (2, 5)},
    ]
    parts = []
    for some, other in zip(texts(train), texts(judged), strict=True):
        for kind in kinds:
            model = TfidfVectorizer(sublinear_tf=True, **kind)
            try:
                parts.append((model.fit_transform(some), model.transform(other)))
            except ValueError:  # no shared words at all
                continue
    features, found = (hstack([part[i] for part in parts], format="csr") for i in (0, 1))
    labels = np.array([row["label"] for row in train])
    enough = min(Counter(labels.tolist()).values()) >= 3
    folds = (StratifiedKFold if enough else KFold)(3, shuffle=True, random_state=0)
    scores = {
        strength: cross_val_score(LogisticRegression(C=strength, max_iter=300), features, labels, cv=folds).mean()
        for strength in STRENGTHS
    }
    best = max(scores, key=lambda strength: scores[strength])
    model = LogisticRegression(C=best, max_iter=500).fit(features, labels)
    return float((model.predict(found) == np.array([row["label"] for row in judged])).mean())


def default(train: Rows, judged: Rows, options: list[str], unlabeled: Rows) -> dict[str, Any]:
    """The accuracy of `mixling train`, its processor seconds and the weights of its parts."""
    with tempfile.TemporaryDirectory() as folder:
        file, out = Path(folder) / "train.jsonl", Path(folder) / "run"
        file.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in train), encoding="utf-8")
        pairs = ["--text-pair", "text_pair"] if "text_pair" in train[0] else []
        command = ["train", str(file), "--text", "text", "--label", "label", *pairs, *options]
        command += ["--test-fraction", "0", "-o", str(out)]
        if unlabeled:
            texts = "".join(json.dumps({"text": row["text"]}, ensure_ascii=False) + "\n" for row in unlabeled)
            (Path(folder) / "unlabeled.jsonl").write_text(texts, encoding="utf-8")
            command += ["--unlabeled", str(Path(folder) / "unlabeled.jsonl")]
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        before = os.times()
        subprocess.run([sys.executable, "-m", "mixling", *command], check=True, env=environment, capture_output=True)
        after = os.times()
        model = Predictor(out, num_threads=1)
        metrics = json.loads((out / "metrics.json").read_text(encoding="utf-8"))
    found = model.predict_proba([(row["text"], row["text_pair"]) if pairs else row["text"] for row in judged])
    names = list(model.labels.names)
    gold = np.array([names.index(row["label"]) if row["label"] in names else -1 for row in judged])
    given = np.where(gold >= 0, found[np.arange(len(gold)), gold], 0)
    sure, right = found.max(1), found.argmax(1) == gold
    bins = np.minimum((sure * 15).astype(int), 14)
    return {
        "accuracy": round(float(right.mean()), 5),
        "log_loss": round(float(-np.log(np.maximum(given, 1e-6)).mean()), 4),
        "calibration_error": round(
            float(sum(abs(right[bins == i].sum() - sure[bins == i].sum()) for i in range(15)) / len(gold)), 4
        ),
        "cpu_s": round(after.children_user - before.children_user + after.children_system - before.children_system, 1),
        "ngrams": {
            key: (metrics["ngrams"] or {}).get(key) for key in ("mixture_network", "mixture_branch", "strength")
        },
    }


def parser() -> argparse.ArgumentParser:
    assert __doc__ is not None
    out = arguments(__doc__, "beside_linear")
    out.add_argument("sets", nargs="+", metavar="SET:ROWS")
    out.add_argument("--data", type=Path, required=True, help="the folder of the data sets' folders")
    out.add_argument("--alone", action="store_true", help="without the baseline")
    out.add_argument("--samples", nargs="+", type=int, default=[0, 1, 2])
    out.add_argument("--test", action="store_true", help="judge on test rows, not on other training rows")
    out.add_argument("--unlabeled", type=int, default=0, help="texts of other training rows that ours is given, too")
    out.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help="an option of `mixling train --set`"
    )
    return out


def main() -> None:
    """Train sample by sample and write after each."""
    options = parser().parse_args()
    made = provenance()
    results = json.loads(options.out.read_text(encoding="utf-8"))["results"] if options.out.exists() else []
    mine = []
    for number in options.samples:
        for name, size in (one.split(":") for one in options.sets):
            draw = random.Random(f"{name} {number}")
            train, test = rows_of(options.data, name, draw)
            train, others = sample(train, size, draw)
            judged = test if options.test else others[:MOST]
            unlabeled = others[MOST:][: options.unlabeled]
            given = [*options.set, *([f"unlabeled={options.unlabeled}"] * bool(options.unlabeled))]
            new: dict[str, Any] = dict(zip(KEY, (name, size, number, options.test, given), strict=True))
            if not options.alone:
                begin = time.process_time()
                new["linear"] = round(baseline(train, judged), 5)
                new["linear_cpu_s"] = round(time.process_time() - begin, 1)
            new |= default(train, judged, [part for one in options.set for part in ("--set", one)], unlabeled)
            print(json.dumps(new), flush=True)
            results = [one for one in results if any(one[key] != new[key] for key in KEY)]
            results.append({**new, "provenance": made})
            mine.append(new)
            write_json(options.out, {"results": results})
    differences = defaultdict(list)
    for one in mine:
        differences[one["set"], one["rows"]].append(one["accuracy"] - one.get("linear", 0))
    for (name, size), found in differences.items():
        print(f"{name}:{size} {mean(found):+.4f} on average, worst {min(found):+.4f} ({len(found)} samples)")


if __name__ == "__main__":
    main()
