"""pNLP-Mixer, Tables 1 to 5, 7 and 8: projections, rivals, configurations, sizes, languages, long texts, vocabularies.

    python experiments/pnlp_mixer.py 1 --data ../shared/data --seeds 3 --training ours
    python experiments/pnlp_mixer.py 1 2 --data ../shared/data --training paper
    python experiments/pnlp_mixer.py 1 2 --data ../shared/data --size x-small --examples 5000 --epochs 12 # in small
    python experiments/pnlp_mixer.py choose --data ../shared/data --size x-small           # how X-SMALL is trained best
    python experiments/pnlp_mixer.py 5 --data ../shared/data --smoke                       # a few rows, to try it

Minutes of one idle core for one seed with `ours`, estimated from 9 seconds an epoch of X-SMALL and 35 of BASE on MTOP
English (AMD EPYC, 2026-11-23): Table 1 120, 2 110, 3 160, 4 70, 5 135, 7 about 400 (X-SMALL alone 60), 8 70, choose 30
to 40. The paper's recipe takes two to three times as long, as it has 80 epochs of greater batches. On a GPU (an H200
with 16 cores) a training of BASE with it takes a minute, and sixteen run side by side.

`--training paper` is the paper's recipe (pnlp-mixer of recipes.py: 80 epochs, 5e-4, batches of 256, no regularization)
with multilingual BERT's cased vocabulary; `ours` is OURS below, with cased subwords trained on the training rows. Every
model is trained on train, its epoch chosen on validation; figures of a table are those of the 8-bit file on validation
(Tables 1 to 4, as in the paper) or on test, which is read once, at the end (Tables 5, 7 and 8). Four metrics are
reported for slots: word accuracy without O, with which the paper's "exact match" is compared (docs/papers.md), span F1,
sentence accuracy, word accuracy. With several seeds, the tables 1 and 2 get the differences of sentence accuracy
between models that follow each other in the paper's order, with 95% intervals over sentences.

What is not the paper's: rows without a printed figure; the LSTM's size (Table 2); BERT's embeddings (Table 1) are a
table of random vectors unless --embeddings names a .npy file with a row for each subword of the vocabulary; languages
other than English have 859 rows, of which a tenth is validation (XSemPLR), and rows whose slots could not be placed are
left out; vocabularies of single languages (Table 8) are trained on XQuAD, which has no French, and words that they
cannot spell are [UNK]. Hyperpartisan (Table 7) has no official split: five folds are ours, and the split that
Longformer's authors publish is taken as it is, with test articles among those of train, and without these.

Each training is a folder under --runs; finished ones are not repeated, an interrupted one goes on. Results go to
results/pnlp_mixer.json after each seed.
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from mixer_family import complete
from own_models import chosen_baseline
from pnlp_tables import FOLDS, ON_TEST, OURS, PUBLISHED_SPLIT, SIZES, SPLITS, TABLES, TEACHER, Row, mbert, rows_of
from recipes import RECIPES
from text_sets import Rows

from mixling import Dataset, Example, Predictor, RunConfig, Vocabulary, read_examples
from mixling.comparison import Baseline, tfidf
from mixling.config import merge, parse
from mixling.data import ColumnsConfig, OnBadRow, assign_folds, split_validation
from mixling.metrics import resampled
from mixling.metrics.reports import classification_report
from mixling.provenance import provenance
from mixling.runs import evaluate
from mixling.storage import write_json
from mixling.tasks import task_type
from mixling.text import UNKNOWN


def slots(rows: Sequence[Mapping[str, Any]], path: Path, vocabulary: str) -> Dataset:
    """Rows as examples; with a vocabulary, words that it cannot spell become [UNK]."""
    examples = []
    known = Vocabulary.load(vocabulary) if vocabulary else None
    for number, row in enumerate(rows, 1):
        words = row["tokens"]
        if known is not None:
            spelled = known.subwords(words)
            words = [
                UNKNOWN if subwords == [word] and word not in known else word
                for word, subwords in zip(words, spelled, strict=True)
            ]
        examples.append(Example(list(words), tuple(row["slots"]), str(path), number))
    return Dataset.from_examples(examples)


def without_words(data: Dataset) -> Dataset:
    """The same slots, of words that are all [UNK]."""
    return Dataset.from_examples(
        Example([UNKNOWN] * len(words), target, "unknown", number)
        for number, (words, target) in enumerate(zip(data.texts, data.targets, strict=True), 1)
    )


def load(name: str, data: Path) -> tuple[str, Dataset, Dataset, Dataset]:
    """The task, and train, validation and test."""
    folder, _, part = name.partition(":")

    def read(split: str, task: str) -> Dataset:
        path = data / folder / f"{split}.jsonl.gz"
        reader = task_type(task).reader
        return Dataset.from_examples(
            read_examples([path], reader=reader, columns=ColumnsConfig(), on_bad_row=OnBadRow("error"))
        )

    if folder == "mtop_en":
        splits = (read(split, "tagging") for split in ("train", "dev", "test"))
        return "tagging", *(map(without_words, splits) if part == "unknown" else splits)
    if folder == "xsemplr":
        language, _, vocabulary = part.partition(":")
        both = []
        for split in ("dev", "test"):
            path = data / "mtop_xsemplr6" / f"{split}.jsonl.gz"
            rows = [row for row in rows_of(path) if row["lang"] == language and row["complete"]]
            both.append(slots(rows, path, vocabulary))
        return "tagging", *split_validation(both[0], fraction=0.1, seed=0), both[1]
    if folder == "imdb":
        train, validation = split_validation(read("train", "classification"), fraction=0.1, seed=0)
        return "classification", train, validation, read("test", "classification")
    folder = "hyperpartisan_byarticle"
    everything = read("all", "classification")
    if part in SPLITS:
        published = json.loads(PUBLISHED_SPLIT.read_text())
        shared = set(published["test"]) if part == SPLITS[1] else set()
        kept = [[index for index in published[name] if index not in shared] for name in ("train", "validation")]
        splits = (everything.subset(np.array(indices)) for indices in (*kept, published["test"]))
        return "classification", *splits
    fold, number = assign_folds(everything, FOLDS, seed=0), int(part.removeprefix("fold "))
    test = everything.subset(np.flatnonzero(fold == number))
    train, validation = split_validation(everything.subset(np.flatnonzero(fold != number)), fraction=0.1, seed=0)
    return "classification", train, validation, test


def configure(row: Row, task: str, seed: int, options: argparse.Namespace) -> RunConfig:
    """The configuration of a row's training."""
    text: dict[str, Any] = {"lowercase": False}
    if options.training == "paper":
        training = dict(RECIPES["pnlp-mixer"].train)
        text["vocabulary"] = row.vocabulary or str(mbert(options))
    else:
        training = merge(OURS, row.training)
        text["vocabulary"] = row.vocabulary
    if options.epochs is not None:
        training["epochs"] = options.epochs
    training["seed"] = seed
    values = {"task": task, "model": merge(row.model.to_dict(), {"text": text}), "train": training}
    if row.taught:
        values["distill"] = {"teacher": str(options.teacher), "fine_tune": True, "tuning": TEACHER}
    return parse(RunConfig, values, where=row.label)


METRICS = ("word_accuracy", "word_accuracy_without_o", "span_f1", "sentence_accuracy", "accuracy", "macro_f1")


def numbers(metrics: Mapping[str, Any]) -> dict[str, float]:
    """The metrics that tables have; of two classes also the F1 of each: which one the paper has is not stated."""
    out = {name: round(float(metrics[name]), 5) for name in METRICS if metrics.get(name) is not None}
    classes = metrics.get("per_class") or ()
    if "accuracy" in out and len(classes) == 2:
        out |= {f"f1_{row['label']}": round(float(row["f1"]), 5) for row in classes}
    return out


def train(row: Row, table: str, options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Train a row with all seeds, unless that is done; metrics of each 8-bit file."""
    task, *splits = load(row.data, options.data)
    if options.smoke:
        splits = [part.subset(np.arange(min(len(part), 200))) for part in splits]
    training, validation, test = splits
    if options.examples is not None:
        training = training.subset(np.sort(np.random.default_rng(0).permutation(len(training))[: options.examples]))
    if row.model is None:
        yield baseline(task, training, validation, test)
        return
    for seed in range(options.seeds):
        config = configure(row, task, seed, options)
        folder = run_folder(row, table, seed, options)
        began = time.perf_counter()
        if complete(config, (training, validation), folder):
            write_json(folder / "seconds.json", round(time.perf_counter() - began, 1))
        saved = json.loads((folder / "metrics.json").read_text())
        found = {
            "seconds": json.loads((folder / "seconds.json").read_text()),
            "parameters": saved["parameters"],
            "epochs": saved["epochs"],
            "best_epoch": saved["best"]["epoch"],
            "validation": numbers(saved["validation"]),
        }
        if table in ON_TEST:
            examples = [Example(text, target, "test", 0) for text, target in zip(test.texts, test.targets, strict=True)]
            found["test"] = numbers(evaluate(Predictor(folder), examples).metrics.to_dict())
        print(table, row.label, seed, json.dumps(found), flush=True)
        yield found


def baseline(task: str, training: Dataset, validation: Dataset, test: Dataset) -> dict[str, Any]:
    """Metrics of TF-IDF and logistic regression: chosen on validation, then fitted on that and the training rows."""
    own = task_type(task)(task_type(task).label_set(training))

    def measured(model: Baseline, on: Dataset) -> dict[str, float]:
        truth, given = (own.targets(targets) for targets in (list(on.targets), model.predict(list(on.texts))))
        certain = np.eye(len(own.labels))[given]
        return numbers(classification_report(own.labels, np.asarray(truth), certain).to_dict())

    given = (Rows(list(part.texts), list(part.targets)) for part in (training, validation))
    best, _, whole = chosen_baseline(tfidf, *given, own)
    return {"options": best.options, "validation": measured(best, validation), "test": measured(whole, test)}


def run_folder(row: Row, table: str, seed: int, options: argparse.Namespace) -> Path:
    """Where a training is."""
    name = "".join(letter if letter.isalnum() else "-" for letter in row.label)
    kind = "smoke" if options.smoke else variant(options).replace(", ", "-").replace(" ", "-")
    return options.runs / kind / table / name / str(seed)


def variant(options: argparse.Namespace) -> str:
    """What the results of a table are called: the training, and what is smaller than in the paper."""
    parts = [options.training]
    if options.size != "base":
        parts.append(options.size)
    if options.examples is not None:
        parts.append(f"{options.examples} examples")
    if options.epochs is not None:
        parts.append(f"{options.epochs} epochs")
    return ", ".join(parts)


def differences(rows: Sequence[Row], table: str, options: argparse.Namespace) -> list[dict[str, Any]]:
    """Of rows that follow each other, the difference of the mean sentence accuracy, with its interval."""
    _, _, validation, _ = load("mtop_en", options.data)
    if options.smoke:
        validation = validation.subset(np.arange(200))
    texts, tags = list(validation.texts), list(validation.targets)

    def right(row: Row) -> np.ndarray:
        every = []
        for seed in range(options.seeds):
            predictor = Predictor(run_folder(row, table, seed, options))
            found = predictor.predict_stream(texts)
            every.append([tuple(item.tags or ()) == gold for item, gold in zip(found, tags, strict=True)])
        return np.mean(every, axis=0)

    hits = {row.label: right(row) for row in rows if row.paper is not None}
    out = []
    for (first, mine), (second, theirs) in itertools.pairwise(hits.items()):
        ahead = mine - theirs
        interval = asdict(resampled(ahead))
        out.append({"first": first, "second": second, "difference": float(ahead.mean()), **interval})
        print(table, out[-1], flush=True)
    return out


def main() -> None:
    """Train what is missing of the tables that are named, and write them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", nargs="+", choices=TABLES, metavar="TABLE", help=f"of {', '.join(TABLES)}")
    parser.add_argument("--data", type=Path, required=True, help="the folder of the data sets' folders")
    parser.add_argument("--training", choices=("paper", "ours"), default="ours")
    parser.add_argument("--size", choices=SIZES, default="base", help="Tables 1, 2 and choose: what is varied")
    parser.add_argument("--examples", type=int, help="of the training examples, at random, the same for all rows")
    parser.add_argument("--epochs", type=int, help="instead of the training's own number")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--rows", nargs="+", metavar="LABEL", help="these rows of the tables alone")
    parser.add_argument("--embeddings", type=Path, help="Table 1: .npy with a row for each subword of mBERT")
    parser.add_argument("--teacher", type=Path, help="Table 2: folder of transformers, fine-tuned for two more rows")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--smoke", action="store_true", help="200 rows and one epoch; nothing is written")
    parser.add_argument("--runs", type=Path, default=Path("runs/pnlp_mixer"))
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "pnlp_mixer.json")
    options = parser.parse_args()
    if options.smoke:
        options.epochs = 1
    if options.size != "base" and not {*options.tables} <= {"1", "2", "choose"}:
        parser.error("--size is for Tables 1, 2 and choose")
    torch.set_num_threads(options.threads)
    for table in options.tables:
        rows = [row for row in TABLES[table](options) if not options.rows or row.label in options.rows]
        made = provenance(packages=("onnxruntime", "tokenizers"))
        for row in rows:
            part = "test" if table in ON_TEST else "validation"
            seeds = []
            for one in train(row, table, options):
                seeds.append(one)
                means = {name: statistics.mean(one[part][name] for one in seeds) for name in one[part]}
                report = {"provenance": made, "paper": row.paper, "mean": means, "seeds": seeds}
                print(f"| {row.label} | {row.paper} | {json.dumps(means)}", flush=True)
                if not options.smoke:  # after each seed, so that an interrupted row is in the file, too
                    results = json.loads(options.out.read_text()) if options.out.exists() else {}
                    results.setdefault(f"table {table}, {variant(options)}", {})[row.label] = report
                    write_json(options.out, results)
        if table in ("1", "2"):
            ordered = differences(rows, table, options)
            if not options.smoke:
                results = json.loads(options.out.read_text())
                results[f"differences {table}, {variant(options)}"] = ordered
                write_json(options.out, results)


if __name__ == "__main__":
    main()
