"""Macro F1 where labels are of very different frequency: `--metric macro-f1`, the default, and rivals.

    python benchmarks/imbalance.py --data ../shared/data clinc20 clinc50 mtop sst2

The sets, each with one random sample of rows a seed:
clinc20, clinc50: 20 or 50 of CLINC150's intents, whose numbers of training rows fall from 100 to 5 in equal ratios; the
test has the set's 30 rows of each. mtop: MTOP's intents in English as they are. sst2: 2,000 sentences, of which 40 are
positive, and a test of 2,020 with 20.

Ours is trained by the command, once for accuracy and once for macro F1; validation is a part of its rows. The rivals
are fitted on all rows: TF-IDF of words and characters with logistic regression, and with a linear SVM, both with
balanced class weights, with the strength that is best in cross-validation by macro F1; and fastText with words and
bigrams, in its supervised defaults but 50 epochs. Everything has one thread. The test is read once for each model.
Written to benchmarks/results/imbalance.json, one item for each set and seed; others are kept.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import tempfile
import warnings
from collections import Counter, defaultdict
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from side_by_side import arguments

from mixling import Predictor
from mixling.provenance import provenance
from mixling.storage import write_json
from training import Rows, read, write

STRENGTHS = (0.1, 1.0, 10.0)
EPOCHS = 50  # of fastText


def clinc(folder: Path, labels: int, seed: int) -> tuple[Rows, Rows]:
    """Return training rows of `labels` intents with falling numbers, and their test rows."""
    draw = random.Random(f"clinc {labels} {seed}")
    train, test = (read(folder / "clinc150" / f"{name}.jsonl.gz") for name in ("train", "test"))
    chosen = draw.sample(sorted({label for _, label in train}), labels)
    rows: Rows = []
    for rank, label in enumerate(chosen):
        own = [row for row in train if row[1] == label]
        rows += draw.sample(own, max(5, round(100 * 20 ** (-rank / (labels - 1)))))
    draw.shuffle(rows)
    return rows, [row for row in test if row[1] in chosen]


def mtop(folder: Path, seed: int) -> tuple[Rows, Rows]:
    """Return the utterances of MTOP with their intents, each that two training rows have."""

    train, test = (read(folder / "mtop_en" / f"{name}.jsonl.gz") for name in ("train", "test"))
    counts = Counter(label for _, label in train)
    return [row for row in train if counts[row[1]] > 1], [row for row in test if counts[row[1]] > 1]


def sst2(folder: Path, seed: int) -> tuple[Rows, Rows]:
    """Return sentences of SST-2, 40 of 2,000 positive."""
    draw = random.Random(f"sst2 {seed}")
    by_label: dict[str, Rows] = defaultdict(list)
    for row in read(folder / "sst2_glue" / "train.jsonl.gz"):
        by_label[row[1]].append(row)
    rare, common = (draw.sample(by_label[name], 4000) for name in sorted(by_label, reverse=True))
    train, test = rare[:40] + common[: 3960 - 2000], rare[40:60] + common[2000:4000]
    draw.shuffle(train)
    return train, test


def macro_f1(truth: list[str], answers: list[str]) -> float:
    """Return the mean F1 of the labels of the test."""
    pairs = Counter(zip(truth, answers, strict=True))
    true, given = Counter(truth), Counter(answers)
    return float(np.mean([2 * pairs[label, label] / (true[label] + given[label]) for label in true]))


def ours(train: Rows, test: Rows, folder: Path, metric: str, seed: int) -> list[str]:
    """Train by the command, and return the answers for the test."""
    write(train, folder / "rows.jsonl")
    command = [
        sys.executable,
        "-m",
        "mixling",
        "train",
        folder / "rows.jsonl",
        "--test-fraction",
        "0",
        "-o",
        folder / metric,
        "--metric",
        metric,
    ]
    command += ["--seed", str(seed), "--text", "text"]
    subprocess.run([*map(str, command)], check=True, capture_output=True)
    return [str(found.label) for found in Predictor(folder / metric).predict([text for text, _ in test])]


def linear(train: Rows, test: Rows, kind: str, seed: int) -> list[str]:
    """Fit a linear model with balanced weights, and return its answers."""
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import GridSearchCV, StratifiedKFold
    from sklearn.pipeline import make_pipeline, make_union
    from sklearn.svm import LinearSVC

    how = {"sublinear_tf": True}
    features = make_union(
        TfidfVectorizer(ngram_range=(1, 2), **how), TfidfVectorizer(analyzer="char_wb", ngram_range=(2, 5), **how)
    )
    if kind == "svm":
        model, key = LinearSVC(class_weight="balanced", random_state=seed), "linearsvc__C"
    else:
        model, key = LogisticRegression(class_weight="balanced", max_iter=300), "logisticregression__C"
    folds = StratifiedKFold(3, shuffle=True, random_state=seed)
    search = GridSearchCV(make_pipeline(features, model), {key: STRENGTHS}, scoring="f1_macro", cv=folds)
    texts, labels = zip(*train, strict=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of labels that one fold lacks
        search.fit(list(texts), list(labels))
    return [str(label) for label in search.predict([text for text, _ in test])]


def fasttext(train: Rows, test: Rows, folder: Path, seed: int) -> list[str]:
    """Train fastText, and return its answers."""
    import fasttext as library

    library.FastText.eprint = lambda *_: None
    names = sorted({label for _, label in train})
    lines = [f"__label__{names.index(label)} {' '.join(text.lower().split())}" for text, label in train]
    (folder / "fasttext.txt").write_text("\n".join(lines) + "\n", "utf-8")
    model = library.train_supervised(
        str(folder / "fasttext.txt"), epoch=EPOCHS, wordNgrams=2, minn=2, maxn=5, lr=0.5, thread=1, seed=seed, verbose=0
    )
    ask = model.f.predict  # the method of the class fails with NumPy 2
    answers = (ask(" ".join(text.lower().split()) + "\n", 1, 0.0, "strict")[0][1] for text, _ in test)
    return [names[int(answer.removeprefix("__label__"))] for answer in answers]


def main() -> None:
    assert __doc__ is not None
    parser = arguments(__doc__, "imbalance")
    parser.add_argument("sets", nargs="+", choices=("clinc20", "clinc50", "mtop", "sst2"))
    parser.add_argument("--data", type=Path, required=True, help="the folder of the data sets' folders")
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    options = parser.parse_args()
    kept: list[dict[str, Any]] = json.loads(options.out.read_text())["items"] if options.out.exists() else []
    for name in options.sets:
        for seed in options.seeds:
            if name.startswith("clinc"):
                train, test = clinc(options.data, int(name.removeprefix("clinc")), seed)
            else:
                train, test = {"mtop": mtop, "sst2": sst2}[name](options.data, seed)
            truth = [label for _, label in test]
            item: dict[str, Any] = {"set": name, "seed": seed, "rows": len(train), "labels": len({*truth})}
            with tempfile.TemporaryDirectory() as name_of_folder:
                folder = Path(name_of_folder)
                systems = {
                    "accuracy": partial(ours, folder=folder, metric="accuracy", seed=seed),
                    "macro-f1": partial(ours, folder=folder, metric="macro-f1", seed=seed),
                    "logistic regression": partial(linear, kind="logistic", seed=seed),
                    "linear SVM": partial(linear, kind="svm", seed=seed),
                    "fastText": partial(fasttext, folder=folder, seed=seed),
                }
                for system, answer in systems.items():
                    answers = answer(train, test)
                    right = float(np.mean([a == b for a, b in zip(answers, truth, strict=True)]))
                    item[system] = {"macro_f1": round(macro_f1(truth, answers), 4), "accuracy": round(right, 4)}
                    print(name, seed, system, item[system], flush=True)
            kept = [other for other in kept if (other["set"], other["seed"]) != (name, seed)] + [item]
            write_json(options.out, {"provenance": provenance(seed=options.seeds[0]), "items": kept})


if __name__ == "__main__":
    main()
